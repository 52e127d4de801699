import { type KvSource, limit, type TransferParams } from '@busbar/protocol';
import { refuse } from '../../admission.ts';
import type {
  EngineDelta,
  EngineLoad,
  EngineRequest,
  EngineSink,
  FetchReport,
  StagedEnd,
  SubmitResult,
} from '../../port.ts';
import { readExpiredTotal } from '../engine-commands.ts';
import type { VllmEngineOptions } from '../options.ts';
import type { Session } from '../session.ts';
import { refuseRequest } from './admission.ts';
import { EngineWatch, findOverdueFetches, findStuck } from './engine-watch.ts';
import { LoadMeter } from './load-meter.ts';
import { findOvertaken, markOvertaken } from './overtaken.ts';
import { requestBody, TOKEN_API_PATHS } from './request-body.ts';
import { Run, type RunHost } from './run.ts';
import { StagedKv } from './staged-kv.ts';
import { StepGatherer } from './step-gatherer.ts';
import { mooncakeTransfer, nixlTransfer, renewsLease, stageParams } from './transfer-params.ts';

export interface ServingHost {
  /** Something looks as if the engine was gone or another one. */
  suspect(reason: string): void;
  warn(message: string): void;
}

export interface ServingParts {
  options: VllmEngineOptions;
  session: Session;
  sink: EngineSink;
  /** Requests whose KV nobody fetched, as the engine has counted them before. */
  expiredBefore: number;
  host: ServingHost;
}

/** All requests at a running vLLM, from their submission to their end, and the KV that it keeps of them for decode engines. */
export class Serving implements RunHost {
  readonly #options: VllmEngineOptions;
  readonly #session: Session;
  readonly #sink: EngineSink;
  readonly #host: ServingHost;
  readonly #nowMs: () => number;
  readonly #runs = new Map<number, Run>();
  readonly #gatherer: StepGatherer;
  readonly #watch = new EngineWatch(() => this.#look());
  readonly #meter: LoadMeter;
  readonly #staged: StagedKv;
  #engineId: string | undefined;

  constructor({ options, session, sink, expiredBefore, host }: ServingParts) {
    this.#options = options;
    this.#session = session;
    this.#sink = sink;
    this.#host = host;
    this.#nowMs = () => options.clock.monotonicMs();
    this.#gatherer = new StepGatherer((deltas) => sink.onStep({ deltas }));
    const { facts, info } = session;
    this.#meter = new LoadMeter(facts.blockSize, facts.kvBlocks * facts.dpRanks);
    this.#engineId = info.transfer?.engineId;
    const leaseMs = options.transfer?.leaseMs ?? 0;
    if (options.transfer !== undefined && leaseMs <= limit('stagedKvMs')) {
      host.warn(
        `the engine keeps KV for ${leaseMs} ms only, and decode workers may come for it within ${limit('stagedKvMs')} ms`,
      );
    }
    this.#staged = new StagedKv(leaseMs, expiredBefore, {
      nowMs: this.#nowMs,
      expiredTotal: () => readExpiredTotal(session.http),
      ended: (key, how) => sink.onStagedEnd(key, how),
    });
  }

  submit(request: EngineRequest): SubmitResult {
    const { info, facts, tokenApi, http } = this.#session;
    if (this.#runs.has(request.key) || this.#staged.has(request.key)) {
      return refuse('WORKER_BAD_REQUEST', 'the key is in use');
    }
    const refusal = refuseRequest(request, info);
    if (refusal !== undefined) return refusal;
    const kvTransferParams = this.#transferParams(request);
    const run = new Run(request, this, this.#nowMs);
    this.#runs.set(request.key, run);
    this.#meter.submitted(run, this.#runs);
    this.#watch.start();
    if (request.kvSource !== undefined && !this.#beginFetch(run, request.kvSource)) {
      return { kind: 'accepted' };
    }
    const room = info.contextTokens - request.tokens.length;
    const maxTokens = Math.min(request.maxTokens, room);
    const fitting = { ...request, maxTokens, minTokens: Math.min(request.minTokens, maxTokens) };
    const body = requestBody(fitting, {
      api: tokenApi,
      model: facts.servedName,
      ...(kvTransferParams === undefined ? {} : { kvTransferParams }),
    });
    run.attach(http.stream(TOKEN_API_PATHS[tokenApi], body, run));
    return { kind: 'accepted' };
  }

  abort(key: number): void {
    this.#runs.get(key)?.end('cancelled');
    this.#staged.giveUp(key);
  }

  stagedFetched(key: number): void {
    this.#staged.fetched(key);
  }

  load(): EngineLoad {
    const reusable = this.#session.kv?.statistics().blocks ?? 0;
    return this.#meter.read(this.#runs.values(), this.#staged.blocks, reusable);
  }

  /** The engine came back with an empty cache. */
  kvGone(): void {
    this.#staged.endAll('expired');
  }

  /** Ends every request, and what is staged; delivers all of it before it returns. */
  stop(staged: StagedEnd, error?: EngineDelta['error']): void {
    for (const run of this.#runs.values()) {
      run.end(error === undefined ? 'cancelled' : 'error', error);
    }
    this.#gatherer.flush();
    this.#watch.stop();
    this.#staged.stop(staged);
  }

  deliver(run: Run, delta: EngineDelta): void {
    if (delta.finish !== 'none') {
      this.#runs.delete(delta.key);
      this.#meter.ended(run);
      markOvertaken(this.#runs.values(), run);
      if (this.#runs.size === 0) this.#watch.stop();
    }
    if (delta.transfer !== undefined) {
      const blocks = Math.ceil(run.request.tokens.length / this.#session.facts.blockSize);
      this.#staged.add(delta.key, blocks);
    }
    this.#gatherer.add(delta);
  }

  stepped(tokens: number, gapMs: number): void {
    this.#meter.stepped(tokens, gapMs);
  }

  fetchEnded(run: Run, report: FetchReport): void {
    const bytes =
      report.outcome === 'ok'
        ? run.request.tokens.length * (this.#session.info.transfer?.kvBytesPerToken ?? 0)
        : 0;
    this.#sink.onFetchEnd(run.request.key, { ...report, bytes });
  }

  transferOf(run: Run, params: unknown): TransferParams | undefined {
    const { transfer } = this.#session.info;
    const { stageKv } = run.request;
    if (transfer?.protocol === 'mooncake' && stageKv !== undefined) {
      return mooncakeTransfer(transfer, stageKv.transferId);
    }
    if (params === undefined) {
      this.#host.warn('this vLLM has no KV connector: it is no prefill worker');
      return undefined;
    }
    const parsed = nixlTransfer(params, this.#session.facts.version);
    this.#onEngineId(parsed.params.remote_engine_id);
    return parsed;
  }

  brokeOff(reason: string): void {
    this.#host.suspect(reason);
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
    const isRenewed = renewsLease(protocol, this.#session.facts.version);
    const leftMs = isRenewed ? fetchMs : validForMs + leaseMs - limit('stagedKvMs');
    run.beginFetch(this.#nowMs() + Math.min(fetchMs, leftMs));
    this.#sink.onFetchBegin(run.request.key);
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
    const message = `vLLM sent nothing for more than ${silenceMs} ms`;
    for (const run of stuck) run.end('error', { code: 'WORKER_FAULT', message, retryable: true });
    this.#host.suspect(message);
  }

  #onEngineId(engineId: string): void {
    const before = this.#engineId;
    this.#engineId = engineId;
    const isNew = before !== undefined && !engineId.startsWith(before);
    if (isNew) this.#host.suspect(`its KV engine ${before} is now ${engineId}`);
  }
}
