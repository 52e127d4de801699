import { minorOf } from '../engine-facts.ts';
import { VllmError } from '../errors.ts';
import type { VllmEngineOptions, VllmSpawn } from '../options.ts';
import { TOKEN_API_PATHS } from '../serving/request-body.ts';

/** What is settled only when the child is about to start. */
export interface ServeFacts {
  port: number;
  /** Of the installed vLLM; undefined when it could not be found out. */
  version: string | undefined;
  kvEventsConfig: object | undefined;
  sideChannelPort: number;
  engineId: string;
}

const SCALE_OUT = '--enable-scale-out';
const SCALE_OUT_SINCE = 30;
/** Short forms of what is read here. */
const SHORT_FLAGS: Readonly<Record<string, string>> = { '-dp': '--data-parallel-size' };
const OWNED = ['--kv-events-config', '--kv-transfer-config'];
const PORT = '--port';
const CONNECTORS = { nixl: 'NixlConnector', mooncake: 'MooncakeConnector' } as const;

/** vLLM's name of the connector of a transfer protocol. */
export function connectorOf(protocol: keyof typeof CONNECTORS): string {
  return CONNECTORS[protocol];
}

/**
 * The command line of `vllm serve`. What the person's own arguments say is not said again. Throws VllmError when they say
 * something that only Busbar can settle.
 */
export function serveCommand(
  options: VllmEngineOptions,
  spawn: VllmSpawn,
  facts: ServeFacts,
): string[] {
  // A port that was chosen just now is not the person's.
  const flags = spawn.port === 0 ? [...OWNED, PORT] : OWNED;
  const owned = flags.find((flag) => hasFlag(spawn.args, flag));
  if (owned !== undefined) {
    throw new VllmError('VLLM_OPTIONS', `${owned} is set by Busbar; leave it out of the arguments`);
  }
  const wanted: [flag: string, ...values: string[]][] = [
    ['--host', spawn.host],
    [PORT, String(facts.port)],
    ['--enable-prompt-tokens-details'],
  ];
  if (options.model !== undefined) wanted.push(['--served-model-name', options.model]);
  if (options.blockSize !== undefined) wanted.push(['--block-size', String(options.blockSize)]);
  if (options.contextTokens !== undefined) {
    wanted.push(['--max-model-len', String(options.contextTokens)]);
  }
  // The flag is an error for older versions, where the route is always there.
  if ((minorOf(facts.version ?? '') ?? 0) >= SCALE_OUT_SINCE) wanted.push([SCALE_OUT]);
  if (facts.kvEventsConfig !== undefined) {
    wanted.push(['--kv-events-config', JSON.stringify(facts.kvEventsConfig)]);
  }
  if (options.transfer !== undefined) {
    wanted.push(['--kv-transfer-config', JSON.stringify(transferConfig(options.transfer, facts))]);
  }
  const own = wanted.filter(([flag]) => !hasFlag(spawn.args, flag)).flat();
  return [...spawn.command, 'serve', spawn.modelPath, ...own, ...spawn.args];
}

/** What follows from not knowing which vLLM a command runs, as a sentence for a person. */
export function unknownInstallation({ command, args }: VllmSpawn): string {
  const leftOut = hasFlag(args, SCALE_OUT)
    ? ''
    : ` ${SCALE_OUT} is left out, because versions before 0.${SCALE_OUT_SINCE} refuse it: add it to the arguments for a newer one.`;
  return `Which vLLM "${command.join(' ')}" runs cannot be told from its files.${leftOut} Its CUDA is not compared with the driver's.`;
}

/** Why token ids go the slower way although the engine has the better one, as a sentence for a person. */
export function closedTokenApi(url: string, isChild: boolean): string {
  const remedy = isChild
    ? `add ${SCALE_OUT} to the arguments of vLLM`
    : `start that vLLM with ${SCALE_OUT}`;
  return `${url} refuses ${TOKEN_API_PATHS.generate}, so token ids go over ${TOKEN_API_PATHS.completions}, where vLLM makes text of every answer that nobody reads: ${remedy}`;
}

function transferConfig(
  transfer: NonNullable<VllmEngineOptions['transfer']>,
  facts: ServeFacts,
): object {
  const lease = transfer.protocol === 'nixl' ? { kv_lease_duration: transfer.leaseMs / 1_000 } : {};
  return {
    kv_connector: connectorOf(transfer.protocol),
    // Either side of a pair may be asked for both: a decode worker can always prefill itself.
    kv_role: 'kv_both',
    engine_id: facts.engineId,
    ...(transfer.protocol === 'nixl'
      ? { kv_buffer_device: transfer.bufferDevice, kv_load_failure_policy: 'fail' }
      : {}),
    kv_connector_extra_config: { ...lease, ...transfer.extraConfig },
  };
}

/**
 * The child's environment: the given one, and what Busbar needs where it says nothing. How long KV is kept and where it is asked for win
 * over it: other workers count on them.
 */
export function serveEnv(
  options: VllmEngineOptions,
  spawn: VllmSpawn,
  facts: ServeFacts,
): Record<string, string | undefined> {
  const added: Record<string, string> = { VLLM_NO_USAGE_STATS: '1' };
  // Cache reset and sleep are routes for developers, which nobody else may reach.
  if (isLoopback(flagValue(spawn.args, '--host') ?? spawn.host))
    added['VLLM_SERVER_DEV_MODE'] = '1';
  if (hasFlag(spawn.args, '--enable-lora')) added['VLLM_ALLOW_RUNTIME_LORA_UPDATING'] = 'True';
  const { transfer } = options;
  const settled: Record<string, string> = {};
  if (transfer?.protocol === 'nixl') {
    added['VLLM_NIXL_SIDE_CHANNEL_HOST'] = transfer.host;
    added['VLLM_NIXL_SIDE_CHANNEL_PORT'] = String(facts.sideChannelPort);
    // Up to 0.21 the lease was this.
    settled['VLLM_NIXL_ABORT_REQUEST_TIMEOUT'] = String(Math.ceil(transfer.leaseMs / 1_000));
  } else if (transfer?.protocol === 'mooncake') {
    settled['VLLM_MOONCAKE_BOOTSTRAP_PORT'] = String(facts.sideChannelPort);
    settled['VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT'] = String(Math.ceil(transfer.leaseMs / 1_000));
  }
  return { ...added, ...spawn.env, ...settled };
}

/** The value of a flag, as vLLM reads it; undefined when it is not there. */
export function flagValue(args: readonly string[], flag: string): string | undefined {
  for (const [at, arg] of args.entries()) {
    if (flagOf(arg) !== flag) continue;
    const equals = arg.indexOf('=');
    return equals === -1 ? args[at + 1] : arg.slice(equals + 1);
  }
  return undefined;
}

/** Whether the arguments say this flag, or a part of its JSON (`--flag.name value`). */
export function hasFlag(args: readonly string[], flag: string): boolean {
  return args.some((arg) => flagOf(arg) === flag);
}

/** vLLM takes underscores for dashes in the names of flags, and fields of JSON behind a dot. */
function flagOf(arg: string): string | undefined {
  const name = /^--[^=.]+/.exec(arg)?.[0].replaceAll('_', '-');
  return name ?? SHORT_FLAGS[arg.split('=', 1)[0] ?? ''];
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}
