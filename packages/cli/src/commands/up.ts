import { messageOf } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import { ensureNatsServer } from '@busbar/nats-server';
import { connectBus } from '../clients/bus-client.ts';
import { type CliContext, commandFor, namespaceOf, stateDirOf } from '../context.ts';
import { CliError } from '../errors.ts';
import { markOf } from '../host/process-table.ts';
import { Stack } from '../stack/stack.ts';
import { claimState, type StackState, stackUrl } from '../stack/state.ts';
import { stopStack } from '../stack/stop.ts';
import { Phases } from '../terminal/phases.ts';
import type { UpFlags } from '../up/flags.ts';
import { follow } from '../up/follow.ts';
import { checkNoStack, checkPort } from '../up/free.ts';
import { startGuard } from '../up/guard.ts';
import { checkNats, startNats } from '../up/nats.ts';
import { parseUpOptions, type UpOptions } from '../up/options.ts';
import { planProcesses } from '../up/plan.ts';
import { startLimitMs, waitForAnswer, waitForLeases } from '../up/ready.ts';
import { checkVariables } from '../up/service-env.ts';

/** What `up` works on once its flags are checked. */
interface UpJob {
  context: CliContext;
  options: UpOptions;
  stack: Stack;
  phases: Phases;
  suffix: string;
}

/** `busbar up`: starts a stack, shows how it comes up, and stays with it unless it is detached. */
export async function up(context: CliContext, flags: UpFlags, cwd: string): Promise<number> {
  checkVariables(context.env);
  const options = parseUpOptions(flags, context.env, cwd);
  const namespace = namespaceOf(context, flags.namespace);
  const stateDir = stateDirOf(context, namespace);
  checkNoStack(stateDir);
  await checkPort(stateDir, options.host, options.port);
  const state = newState(context, options, namespace);
  claimState(stateDir, state);
  const job: UpJob = {
    context,
    options,
    stack: new Stack(stateDir, state),
    phases: new Phases(context.terminal, () => performance.now()),
    suffix: Math.random().toString(36).slice(2, 6).padEnd(4, '0'),
  };
  let bus: Bus | undefined;
  try {
    bus = await start(job);
  } catch (error) {
    job.phases.end();
    await stopStack(stateDir, { ...state, drainMs: 0 }, () => {});
    if (!context.signal.aborted) throw error;
    context.terminal.errorLine('Interrupted before the stack was ready; it was stopped.');
    return 1;
  }
  try {
    if (options.isDetached) return 0;
    return await follow(context, job.stack, bus);
  } finally {
    await bus.close().catch(() => {});
  }
}

async function start(job: UpJob): Promise<Bus> {
  const { context, stack, phases, options } = job;
  const { signal } = context;
  if (!options.isDetached) watchOverThisProcess(job);
  phases.pending('nats-server');
  await bringUpNats(job);
  signal.throwIfAborted();
  const specs = planProcesses({
    options,
    namespace: stack.state.namespace,
    natsUrl: stack.state.natsUrl,
    env: context.env,
    root: context.root,
    stateDir: stack.stateDir,
    node: process.execPath,
    suffix: job.suffix,
  });
  const entries = specs.map((spec) => stack.launch(spec));
  const bus = await connectBus(stack.state.natsUrl, 'up');
  try {
    const limitMs = startLimitMs(options, context.env);
    await waitForLeases(stack, bus, entries, phases, limitMs, signal);
    await waitForAnswer(stack, phases, limitMs, signal);
  } catch (error) {
    await bus.close().catch(() => {});
    throw error;
  }
  tellHowToTry(job);
  return bus;
}

/** In the foreground nothing may outlive this process, whatever ends it. */
function watchOverThisProcess({ context, stack }: UpJob): void {
  const self = markOf(process.pid);
  if (self === undefined)
    throw new CliError('CLI_START_FAILED', 'the process table is not readable');
  const guard = startGuard({
    node: process.execPath,
    stateDir: stack.stateDir,
    namespace: stack.state.namespace,
    env: context.env,
  });
  stack.record(guard);
  stack.record({
    role: 'supervisor',
    id: 'up',
    ...self,
    startedAt: new Date().toISOString(),
  });
}

async function bringUpNats({ context, options, stack, phases, suffix }: UpJob): Promise<void> {
  const given = context.env['BUSBAR_NATS_URL'];
  if (given) {
    const info = await checkNats(given);
    phases.done(`nats-server ${info.version} found at ${given}`);
    return;
  }
  let binary: string;
  try {
    const found = await ensureNatsServer({ env: context.env, log: (line) => phases.pending(line) });
    binary = found.path;
  } catch (error) {
    throw new CliError('CLI_NO_NATS', messageOf(error), { cause: error });
  }
  const { url, info } = await startNats(stack, {
    binary,
    serverName: `busbar-${stack.state.namespace}-${suffix}`,
    scheduling: options.scheduling,
    path: context.env['PATH'] ?? '',
    signal: context.signal,
  });
  phases.done(`nats-server ${info.version} ready on ${url}`);
}

function newState(context: CliContext, options: UpOptions, namespace: string): StackState {
  const drainText = context.env['BUSBAR_DRAIN_MS'] || '30000';
  const drain = Number(drainText);
  if (!Number.isSafeInteger(drain) || drain < 0) {
    throw new CliError(
      'CLI_USAGE',
      `BUSBAR_DRAIN_MS takes a whole number of milliseconds, not "${drainText}"`,
    );
  }
  const starter = markOf(process.pid);
  return {
    version: 1,
    namespace,
    ...(starter === undefined ? {} : { starter }),
    host: options.host,
    port: options.port,
    model: options.model ?? '',
    policy: options.policy,
    engine: options.engine,
    ...(options.modelPath === undefined ? {} : { modelPath: options.modelPath }),
    ...(options.vllm?.command === undefined ? {} : { vllmCommand: options.vllm.command }),
    ...(options.vllm === undefined ? {} : { isAttached: !options.vllm.isStarted }),
    disaggregation: {
      mode: options.disaggregation.mode,
      isStrict: options.disaggregation.isStrict,
    },
    natsUrl: context.env['BUSBAR_NATS_URL'] ?? '',
    drainMs: drain,
    isStopping: false,
    processes: [],
  };
}

function tellHowToTry({ context, stack, options }: UpJob): void {
  const { terminal } = context;
  const body = JSON.stringify({
    model: stack.state.model,
    messages: [{ role: 'user', content: 'Hello' }],
    stream: true,
  });
  const command = (name: string): string => commandFor(stack.state.namespace, `npx busbar ${name}`);
  if (!options.kvEvents) {
    const text =
      'KV events are off: routers guess what is cached, and /ready and doctor will say so.';
    terminal.line(terminal.paint('yellow', text));
  }
  terminal.line();
  terminal.line('Try it:');
  terminal.line(
    terminal.paint(
      'cyan',
      `  curl -N ${stackUrl(stack.state)}/v1/chat/completions -H 'content-type: application/json' -d '${body}'`,
    ),
  );
  terminal.line(terminal.paint('cyan', `  ${command('chat')}`));
  const end = options.isDetached ? command('down') : 'Ctrl-C';
  terminal.line(`Logs are in ${stack.stateDir}/logs. Stop with ${end}.`);
}
