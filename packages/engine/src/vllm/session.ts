import type { WorkerInfo } from '@busbar/protocol';
import type { EngineSink } from '../port.ts';
import { type EngineFacts, readEngineFacts, unknownVersion } from './engine-facts.ts';
import { VllmError } from './errors.ts';
import {
  createKvEvents,
  type KvEventSource,
  type KvEvents,
  type KvEventsProblem,
  parseEventSources,
} from './kv-events/index.ts';
import {
  VLLM_DEFAULTS,
  type VllmAttach,
  type VllmEngineOptions,
  type VllmSpawn,
} from './options.ts';
import { TOKEN_API_PATHS, type TokenApi } from './serving/request-body.ts';
import type { GroupChild } from './start/child-process.ts';
import { type Launched, launchVllm, type Report, waitHealthy } from './start/launch.ts';
import { closedTokenApi, flagValue } from './start/serve-args.ts';
import { VllmHttp } from './vllm-http.ts';
import { workerInfoOf } from './worker-info.ts';

/** Topic of a child's KV events. */
const TOPIC = 'kv-events';

/** A running vLLM and what belongs to it. */
export interface Session {
  http: VllmHttp;
  child: GroupChild | undefined;
  kv: KvEvents | undefined;
  facts: EngineFacts;
  info: WorkerInfo;
  tokenApi: TokenApi;
  close(): Promise<void>;
}

export interface SessionHost {
  sink: EngineSink;
  onKvProblem(problem: KvEventsProblem): void;
}

/** Starts or finds the engine and reads what it is. What was begun is ended again when it rejects. */
export async function openSession(
  options: VllmEngineOptions,
  host: SessionHost,
  signal: AbortSignal,
): Promise<Session> {
  const opening = new Opening(options, host);
  try {
    return await opening.open(signal);
  } catch (error) {
    await opening.close();
    throw error;
  }
}

class Opening {
  readonly #options: VllmEngineOptions;
  readonly #host: SessionHost;
  readonly #beganMs = performance.now();
  #kv: KvEvents | undefined;
  #http: VllmHttp | undefined;
  #launched: Launched | undefined;

  constructor(options: VllmEngineOptions, host: SessionHost) {
    this.#options = options;
    this.#host = host;
  }

  async open(signal: AbortSignal): Promise<Session> {
    signal.throwIfAborted();
    const options = this.#options;
    const { engine } = options;
    if (engine.kind === 'spawn') await this.#launch(engine, signal);
    const http = new VllmHttp(
      this.#launched?.url ?? (engine.kind === 'attach' ? engine.url : ''),
      engine.kind === 'attach' ? engine.apiKey : undefined,
    );
    this.#http = http;
    this.#report('loading', `waiting for ${http.url}`);
    await waitHealthy(
      http,
      this.#launched,
      options.startTimeoutMs ?? VLLM_DEFAULTS.startSeconds * 1_000,
      signal,
    );
    this.#report('health', `${http.url} answers`);
    const facts = await readEngineFacts(http, options.model);
    this.#check(facts);
    const capacity = facts.kvBlocks * facts.blockSize;
    this.#report(
      'model',
      `${facts.servedName} on vLLM ${facts.version}: KV for ${capacity} tokens in ${facts.kvBlocks} blocks of ${facts.blockSize}`,
    );
    if (engine.kind === 'attach') await this.#attachKv(http, engine, facts);
    this.#kv?.expectBlocks(facts.blockSize, facts.kvBlocks);
    const tokenApi = await this.#findTokenApi(http);
    const info = await workerInfoOf({ ...options, kvEvents: this.#kv !== undefined }, facts, {
      sideChannelPort: this.#launched?.sideChannelPort ?? options.transfer?.port ?? 0,
      engineId: this.#launched?.engineId ?? options.transfer?.engineId,
    });
    signal.throwIfAborted();
    this.#report('ready', `takes token ids at ${TOKEN_API_PATHS[tokenApi]}`);
    return {
      http,
      child: this.#launched?.child,
      kv: this.#kv,
      facts,
      info,
      tokenApi,
      close: () => this.close(),
    };
  }

  async close(): Promise<void> {
    await this.#launched?.child.stop(this.#options.stopGraceMs ?? VLLM_DEFAULTS.stopGraceMs);
    await this.#kv?.close();
    this.#http?.close();
  }

  async #launch(engine: VllmSpawn, signal: AbortSignal): Promise<void> {
    const report: Report = (phase, detail) => this.#report(phase, detail);
    let config: object | undefined;
    if (this.#options.kvEvents) {
      const dpRanks = Number(flagValue(engine.args, '--data-parallel-size')) || 1;
      this.#kv = this.#createKv({ kind: 'listen', dpRanks }, TOPIC);
      config = await this.#kv.open();
    }
    signal.throwIfAborted();
    this.#launched = await launchVllm(this.#options, engine, config, report);
  }

  async #attachKv(http: VllmHttp, engine: VllmAttach, facts: EngineFacts): Promise<void> {
    if (!this.#options.kvEvents || !facts.hasPrefixCaching) return;
    const { sources, topic } = await this.#eventSources(http, engine);
    if (sources.length === 0) {
      this.#options.onWarning?.(
        `${http.url} tells no address of KV events; the worker runs without`,
      );
      return;
    }
    this.#kv = this.#createKv({ kind: 'attach', sources }, topic);
    await this.#kv.open();
  }

  /** Given addresses win; from 0.31 the engine tells its own. */
  async #eventSources(
    http: VllmHttp,
    { kvEventEndpoints = [] }: VllmAttach,
  ): Promise<{ sources: KvEventSource[]; topic: string }> {
    if (kvEventEndpoints.length > 0) {
      return {
        sources: kvEventEndpoints.map((source, dpRank) => ({ dpRank, ...source })),
        topic: '',
      };
    }
    const { status, text } = await http.exchange('GET', '/kv_event_sources');
    if (status !== 200) return { sources: [], topic: '' };
    try {
      return parseEventSources(JSON.parse(text), new URL(http.url).hostname);
    } catch {
      this.#options.onWarning?.(`${http.url}/kv_event_sources answers something else than a vLLM`);
      return { sources: [], topic: '' };
    }
  }

  #createKv(from: Parameters<typeof createKvEvents>[0]['from'], topic: string): KvEvents {
    const onProblem = (problem: KvEventsProblem): void => this.#host.onKvProblem(problem);
    return createKvEvents({ sink: this.#host.sink, from, topic, onProblem });
  }

  #check(facts: EngineFacts): void {
    const { model, blockSize, engine } = this.#options;
    const warning = unknownVersion(facts.version);
    if (warning !== undefined) this.#options.onWarning?.(warning);
    if (!facts.hasPrefixCaching) this.#options.onWarning?.('this vLLM runs without prefix caching');
    if (blockSize !== undefined && blockSize !== facts.blockSize) {
      throw new VllmError(
        'VLLM_OPTIONS',
        `vLLM has blocks of ${facts.blockSize} tokens, not ${blockSize}`,
      );
    }
    // A model may be served under another name here; two names of one worker would be a mistake.
    if (engine.kind === 'spawn' && model !== undefined && model !== facts.servedName) {
      throw new VllmError('VLLM_OPTIONS', `vLLM serves "${facts.servedName}", not "${model}"`);
    }
  }

  /** From 0.30 the token route is closed without --enable-scale-out; before 0.11 there is none. */
  async #findTokenApi(http: VllmHttp): Promise<TokenApi> {
    // An empty prompt is refused behind the route, so that nothing is computed.
    const { status } = await http.exchange('POST', TOKEN_API_PATHS.generate, { token_ids: [] });
    if (status === 403) {
      this.#options.onWarning?.(closedTokenApi(http.url, this.#launched !== undefined));
    }
    return status === 403 || status === 404 || status === 405 ? 'completions' : 'generate';
  }

  #report(phase: Parameters<Report>[0], detail: string): void {
    const elapsedMs = performance.now() - this.#beganMs;
    this.#options.onProgress?.({ phase, elapsedMs, detail });
  }
}
