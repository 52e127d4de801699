import { messageOf } from '@busbar/base';
import type { WorkerInfo } from '@busbar/protocol';
import { refuse } from '../admission.ts';
import type { Engine, EngineLoad, EngineRequest, EngineSink, SubmitResult } from '../port.ts';
import {
  isReachable,
  loadLora,
  metricsText,
  putToSleep,
  readExpiredTotal,
  readIncarnation,
  resetPrefixCache,
  unloadLora,
  wakeUp,
} from './engine-commands.ts';
import { readEngineFacts } from './engine-facts.ts';
import { VllmError } from './errors.ts';
import type { KvEventsProblem } from './kv-events/index.ts';
import type { VllmEngineOptions } from './options.ts';
import { LoadMeter } from './serving/load-meter.ts';
import { Serving } from './serving/serving.ts';
import { openSession, type Session } from './session.ts';
import type { ChildEnd } from './start/child-process.ts';
import { hasFlag } from './start/serve-args.ts';
import { changedFacts } from './worker-info.ts';

const NOT_RUNNING = refuse('WORKER_FAULT', 'the engine does not run');

/** Hosts a vLLM of 0.10 to 0.33: starts it as a child or attaches to one that runs. Promises what `./contract` says. */
export function createVllmEngine(options: VllmEngineOptions): Engine {
  return new VllmEngine(options);
}

/** The life of an engine: its start, what it is, whether it is still the same, and its end. Its requests are `Serving`'s. */
class VllmEngine implements Engine {
  readonly #options: VllmEngineOptions;
  #sink: EngineSink | undefined;
  #session: Session | undefined;
  #serving: Serving | undefined;
  #incarnation: number | undefined;
  #isAsleep = false;
  #isStopping = false;
  #isChecking = false;
  #warned = new Set<string>();
  sleep?: (level: 1 | 2) => Promise<void>;
  wake?: () => Promise<void>;

  constructor(options: VllmEngineOptions) {
    this.#options = options;
  }

  async start(sink: EngineSink, signal: AbortSignal): Promise<WorkerInfo> {
    const session = await openSession(
      this.#options,
      { sink, onKvProblem: (problem) => this.#onKvProblem(problem) },
      signal,
    );
    this.#session = session;
    this.#sink = sink;
    this.#incarnation = await readIncarnation(session.http);
    this.#serving = new Serving({
      options: this.#options,
      session,
      sink,
      expiredBefore: (await readExpiredTotal(session.http)) ?? 0,
      host: {
        suspect: (reason) => void this.#checkEngine(reason),
        warn: (message) => this.#warn(message),
      },
    });
    await this.#offerSleep(session);
    if (session.child !== undefined) void this.#mourn(session.child.ended);
    return session.info;
  }

  submit(request: EngineRequest): SubmitResult {
    if (this.#serving === undefined || this.#isStopping) return NOT_RUNNING;
    if (this.#isAsleep) return refuse('WORKER_FAULT', 'the engine sleeps');
    return this.#serving.submit(request);
  }

  abort(key: number): void {
    this.#serving?.abort(key);
  }

  stagedFetched(key: number): void {
    this.#serving?.stagedFetched(key);
  }

  load(): EngineLoad {
    return this.#serving?.load() ?? new LoadMeter(1, 1).read([], 0, 0);
  }

  blocks(): ReturnType<Engine['blocks']> {
    return this.#session?.kv?.blocks() ?? [];
  }

  /** Needs a child on a loopback address, or VLLM_SERVER_DEV_MODE=1. Blocks in use make vLLM refuse it as a whole. */
  async resetCache(): Promise<void> {
    if (this.#session !== undefined) await resetPrefixCache(this.#session);
  }

  metricsText(): Promise<string> {
    return metricsText(this.#http());
  }

  async loadLora(name: string, path: string): Promise<void> {
    this.#tellLoras(await loadLora(this.#http(), name, path));
  }

  async unloadLora(name: string): Promise<void> {
    this.#tellLoras(await unloadLora(this.#http(), name));
  }

  async stop(): Promise<void> {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#serving?.stop('released');
    await this.#session?.close();
    this.#sink = undefined;
  }

  #onKvProblem(problem: KvEventsProblem): void {
    this.#options.onWarning?.(`KV events of rank ${problem.dpRank}: ${problem.message}`);
    if (problem.kind === 'block-size') this.#fault(problem.message);
    else if (problem.kind === 'restart') void this.#checkEngine(problem.message);
  }

  /** After a sign that the engine is gone or another: goes on with it, or says in a sentence why not. */
  async #checkEngine(reason: string): Promise<void> {
    if (this.#isChecking || this.#isStopping || this.#session === undefined) return;
    this.#isChecking = true;
    const { http } = this.#session;
    try {
      if (!(await isReachable(http))) {
        this.#fault(`${reason}; it does not answer any more`);
        return;
      }
      const incarnation = await readIncarnation(http);
      // One that does not say when it began may have begun anew all the same.
      if (incarnation === undefined || incarnation !== this.#incarnation) {
        await this.#onRestart(incarnation);
      }
    } catch (error) {
      this.#fault(`${reason}; ${messageOf(error)}`);
    } finally {
      this.#isChecking = false;
    }
  }

  async #onRestart(incarnation: number | undefined): Promise<void> {
    const session = this.#session;
    if (session === undefined) return;
    const facts = await readEngineFacts(session.http, this.#options.model);
    const changes = changedFacts(session.facts, facts);
    if (changes !== undefined) {
      this.#fault(`vLLM came back as another: ${changes}`);
      return;
    }
    if (incarnation === undefined) return;
    this.#incarnation = incarnation;
    this.#warn('vLLM was started anew; its cache is empty');
    this.#serving?.kvGone();
    if (session.kv === undefined) this.#sink?.onCacheReset();
    else session.kv.engineGone();
  }

  async #mourn(ended: Promise<ChildEnd>): Promise<void> {
    const { code, signal } = await ended;
    this.#fault(`vLLM ended ${signal === null ? `with code ${code}` : `by ${signal}`}`);
  }

  #fault(message: string): void {
    const sink = this.#sink;
    if (sink === undefined || this.#isStopping) return;
    this.#isStopping = true;
    this.#serving?.stop('expired', { code: 'WORKER_FAULT', message, retryable: true });
    sink.onFault(new VllmError('VLLM_GONE', message));
    this.#sink = undefined;
    void this.#session?.close();
  }

  async #offerSleep({ http }: Session): Promise<void> {
    const { engine } = this.#options;
    // A platform that cannot sleep refuses the flag; a route that answers proves nothing.
    const canSleep = engine.kind === 'spawn' && hasFlag(engine.args, '--enable-sleep-mode');
    const { status } = await http.exchange('GET', '/is_sleeping');
    if (!canSleep || status !== 200) return;
    this.sleep = async (level) => {
      this.#isAsleep = true;
      await putToSleep(http, level).catch((error: unknown) => {
        this.#isAsleep = false;
        throw error;
      });
    };
    this.wake = async () => {
      await wakeUp(http);
      this.#isAsleep = false;
    };
  }

  #tellLoras(loras: string[]): void {
    const session = this.#session;
    if (session === undefined) return;
    session.info = { ...session.info, loras };
    this.#sink?.onInfo(session.info);
  }

  #http(): Session['http'] {
    if (this.#session === undefined) throw new VllmError('VLLM_COMMAND', 'the engine does not run');
    return this.#session.http;
  }

  #warn(message: string): void {
    if (this.#warned.has(message)) return;
    this.#warned.add(message);
    this.#options.onWarning?.(message);
  }
}
