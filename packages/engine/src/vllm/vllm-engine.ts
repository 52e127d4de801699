import { messageOf } from '@busbar/base';
import { type KvSource, limit, type TransferParams, type WorkerInfo } from '@busbar/protocol';
import { refuse } from '../admission.ts';
import type {
  Engine,
  EngineDelta,
  EngineLoad,
  EngineRequest,
  EngineSink,
  FetchReport,
  SubmitResult,
} from '../port.ts';
import { refuseRequest } from './admission.ts';
import type { ChildEnd } from './child-process.ts';
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
import { EngineWatch, findOverdueFetches, findStuck } from './engine-watch.ts';
import { VllmError } from './errors.ts';
import type { KvEventsProblem } from './kv-events/index.ts';
import { LoadMeter } from './load-meter.ts';
import type { VllmEngineOptions } from './options.ts';
import { findOvertaken, markOvertaken } from './overtaken.ts';
import { requestBody, TOKEN_API_PATHS } from './request-body.ts';
import { Run, type RunHost } from './run.ts';
import { openSession, type Session } from './session.ts';
import { StagedKv } from './staged-kv.ts';
import { StepGatherer } from './step-gatherer.ts';
import { mooncakeTransfer, nixlTransfer, renewsLease, stageParams } from './transfer-params.ts';
import { changedFacts } from './worker-info.ts';

const NOT_RUNNING = refuse('WORKER_FAULT', 'the engine does not run');

/** Hosts a vLLM of 0.10 to 0.33: starts it as a child or attaches to one that runs. Promises what `./contract` says. */
export function createVllmEngine(options: VllmEngineOptions): Engine {
  return new VllmEngine(options);
}

class VllmEngine implements Engine, RunHost {
  readonly #options: VllmEngineOptions;
  readonly #runs = new Map<number, Run>();
  readonly #gatherer = new StepGatherer((deltas) => this.#sink?.onStep({ deltas }));
  readonly #watch = new EngineWatch(() => this.#look());
  readonly #nowMs: () => number;
  #sink: EngineSink | undefined;
  #session: Session | undefined;
  #meter = new LoadMeter(1, 1);
  #staged: StagedKv | undefined;
  #incarnation: number | undefined;
  #engineId: string | undefined;
  #isAsleep = false;
  #isStopping = false;
  #isChecking = false;
  #warned = new Set<string>();
  sleep?: (level: 1 | 2) => Promise<void>;
  wake?: () => Promise<void>;

  constructor(options: VllmEngineOptions) {
    this.#options = options;
    this.#nowMs = () => options.clock.monotonicMs();
  }

  async start(sink: EngineSink, signal: AbortSignal): Promise<WorkerInfo> {
    const session = await openSession(
      this.#options,
      { sink, onKvProblem: (problem) => this.#onKvProblem(problem) },
      signal,
    );
    this.#session = session;
    this.#sink = sink;
    const { facts, info } = session;
    this.#meter = new LoadMeter(facts.blockSize, facts.kvBlocks * facts.dpRanks);
    this.#incarnation = await readIncarnation(session.http);
    this.#engineId = info.transfer?.engineId;
    const leaseMs = this.#options.transfer?.leaseMs ?? 0;
    if (this.#options.transfer !== undefined && leaseMs <= limit('stagedKvMs')) {
      this.#warn(
        `the engine keeps KV for ${leaseMs} ms only, and decode workers may come for it within ${limit('stagedKvMs')} ms`,
      );
    }
    const expiredBefore = (await readExpiredTotal(session.http)) ?? 0;
    this.#staged = new StagedKv(leaseMs, expiredBefore, {
      nowMs: this.#nowMs,
      expiredTotal: () => readExpiredTotal(session.http),
      ended: (key, how) => this.#sink?.onStagedEnd(key, how),
    });
    await this.#offerSleep(session);
    if (session.child !== undefined) void this.#mourn(session.child.ended);
    return info;
  }

  submit(request: EngineRequest): SubmitResult {
    const session = this.#session;
    const refusal = this.#refuse(request);
    if (refusal !== undefined || session === undefined) return refusal ?? NOT_RUNNING;
    const kvTransferParams = this.#transferParams(request);
    const run = new Run(request, this, this.#nowMs);
    this.#runs.set(request.key, run);
    this.#meter.submitted(run, this.#runs);
    this.#watch.start();
    if (request.kvSource !== undefined && !this.#beginFetch(run, request.kvSource)) {
      return { kind: 'accepted' };
    }
    const room = session.info.contextTokens - request.tokens.length;
    const maxTokens = Math.min(request.maxTokens, room);
    const fitting = { ...request, maxTokens, minTokens: Math.min(request.minTokens, maxTokens) };
    const body = requestBody(fitting, {
      api: session.tokenApi,
      model: session.facts.servedName,
      ...(kvTransferParams === undefined ? {} : { kvTransferParams }),
    });
    run.attach(session.http.stream(TOKEN_API_PATHS[session.tokenApi], body, run));
    return { kind: 'accepted' };
  }

  abort(key: number): void {
    this.#runs.get(key)?.end('cancelled');
    this.#staged?.giveUp(key);
  }

  stagedFetched(key: number): void {
    this.#staged?.fetched(key);
  }

  load(): EngineLoad {
    const reusable = this.#session?.kv?.statistics().blocks ?? 0;
    return this.#meter.read(this.#runs.values(), this.#staged?.blocks ?? 0, reusable);
  }

  blocks(): ReturnType<Engine['blocks']> {
    return this.#session?.kv?.blocks() ?? [];
  }

  /** Needs a child on a loopback address, or VLLM_SERVER_DEV_MODE=1. Blocks in use make vLLM refuse it as a whole. */
  resetCache(): void {
    const session = this.#session;
    if (session === undefined) return;
    resetPrefixCache(session).catch((error: unknown) =>
      this.#warn(`cache not reset: ${messageOf(error)}`),
    );
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
    for (const run of this.#runs.values()) run.end('cancelled');
    this.#gatherer.flush();
    this.#watch.stop();
    this.#staged?.stop();
    await this.#session?.close();
    this.#sink = undefined;
  }

  deliver(run: Run, delta: EngineDelta): void {
    if (delta.finish !== 'none') {
      this.#runs.delete(delta.key);
      this.#meter.ended(run);
      markOvertaken(this.#runs.values(), run);
      if (this.#runs.size === 0) this.#watch.stop();
    }
    if (delta.transfer !== undefined) {
      const blocks = Math.ceil(run.request.tokens.length / (this.#session?.facts.blockSize ?? 1));
      this.#staged?.add(delta.key, blocks);
    }
    this.#gatherer.add(delta);
  }

  stepped(tokens: number, gapMs: number): void {
    this.#meter.stepped(tokens, gapMs);
  }

  fetchEnded(run: Run, report: FetchReport): void {
    const bytes =
      report.outcome === 'ok'
        ? run.request.tokens.length * (this.#session?.info.transfer?.kvBytesPerToken ?? 0)
        : 0;
    this.#sink?.onFetchEnd(run.request.key, { ...report, bytes });
  }

  transferOf(run: Run, params: unknown): TransferParams | undefined {
    const { transfer } = this.#session?.info ?? {};
    const { stageKv } = run.request;
    if (transfer?.protocol === 'mooncake' && stageKv !== undefined) {
      return mooncakeTransfer(transfer, stageKv.transferId);
    }
    if (params === undefined) {
      this.#warn('this vLLM has no KV connector: it is no prefill worker');
      return undefined;
    }
    const parsed = nixlTransfer(params, this.#session?.facts.version ?? '');
    this.#onEngineId(parsed.params.remote_engine_id);
    return parsed;
  }

  brokeOff(reason: string): void {
    if (!this.#isStopping) void this.#checkEngine(reason);
  }

  #refuse(request: EngineRequest): SubmitResult | undefined {
    const session = this.#session;
    if (session === undefined || this.#isStopping) return NOT_RUNNING;
    if (this.#isAsleep) return refuse('WORKER_FAULT', 'the engine sleeps');
    if (this.#runs.has(request.key) || this.#staged?.has(request.key) === true) {
      return refuse('WORKER_BAD_REQUEST', 'the key is in use');
    }
    return refuseRequest(request, session.info);
  }

  /** False when the engine that prefilled may have given the blocks to another request: vLLM would read those unseen. */
  #beginFetch(run: Run, { validForMs }: KvSource): boolean {
    if (validForMs <= 0) {
      const message = 'the KV of the prompt waited too long for its fetch';
      run.end('error', { code: 'WORKER_KV_LOST', message, retryable: true });
      return false;
    }
    const { transfer, fetchMs = limit('kvFetchMs') } = this.#options;
    const { protocol, leaseMs } = transfer ?? { protocol: 'nixl', leaseMs: 0 };
    const isRenewed = renewsLease(protocol, this.#session?.facts.version ?? '');
    const leftMs = isRenewed ? fetchMs : validForMs + leaseMs - limit('stagedKvMs');
    run.beginFetch(this.#nowMs() + Math.min(fetchMs, leftMs));
    this.#sink?.onFetchBegin(run.request.key);
    return true;
  }

  #transferParams({ stageKv, kvSource }: EngineRequest): Record<string, unknown> | undefined {
    if (kvSource !== undefined) return kvSource.transfer.params;
    const protocol = this.#options.transfer?.protocol;
    if (stageKv === undefined || protocol === undefined) return undefined;
    return stageParams(protocol, stageKv.transferId);
  }

  #look(): void {
    const silenceMs = this.#options.silenceMs ?? limit('streamSilenceMs');
    const nowMs = this.#nowMs();
    for (const run of findOverdueFetches(this.#runs.values(), nowMs)) run.loseFetch();
    for (const run of findOvertaken(this.#runs.values(), nowMs, silenceMs)) run.giveUpWaiting();
    const stuck = findStuck(this.#runs.values(), nowMs, silenceMs);
    if (stuck.length === 0) return;
    const message = `vLLM sent nothing for ${silenceMs} ms`;
    for (const run of stuck) run.end('error', { code: 'WORKER_FAULT', message, retryable: true });
    void this.#checkEngine(message);
  }

  #onKvProblem(problem: KvEventsProblem): void {
    this.#options.onWarning?.(`KV events of rank ${problem.dpRank}: ${problem.message}`);
    if (problem.kind === 'block-size') this.#fault(problem.message);
    else if (problem.kind === 'restart') void this.#checkEngine(problem.message);
  }

  #onEngineId(engineId: string): void {
    const before = this.#engineId;
    this.#engineId = engineId;
    const isNew = before !== undefined && !engineId.startsWith(before);
    if (isNew) void this.#checkEngine(`its KV engine ${before} is now ${engineId}`);
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
      const isSame = incarnation === undefined || incarnation === this.#incarnation;
      if (!isSame) await this.#onRestart(incarnation);
    } catch (error) {
      this.#fault(`${reason}; ${messageOf(error)}`);
    } finally {
      this.#isChecking = false;
    }
  }

  async #onRestart(incarnation: number): Promise<void> {
    const session = this.#session;
    if (session === undefined) return;
    const facts = await readEngineFacts(session.http, this.#options.model);
    const changes = changedFacts(session.facts, facts);
    if (changes !== undefined) {
      this.#fault(`vLLM came back as another: ${changes}`);
      return;
    }
    this.#incarnation = incarnation;
    this.#warn('vLLM was started anew; its cache is empty');
    this.#staged?.endAll('expired');
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
    const error = { code: 'WORKER_FAULT', message, retryable: true };
    for (const run of this.#runs.values()) run.end('error', error);
    this.#gatherer.flush();
    this.#staged?.endAll('expired');
    this.#watch.stop();
    sink.onFault(new VllmError('VLLM_GONE', message));
    this.#sink = undefined;
    void this.#session?.close();
  }

  async #offerSleep({ http }: Session): Promise<void> {
    const { engine } = this.#options;
    // A platform that cannot sleep refuses the flag; a route that answers proves nothing.
    const canSleep = engine.kind === 'spawn' && engine.args.includes('--enable-sleep-mode');
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
