import { assert, type Clock } from '@busbar/base';
import { BlockHasher, hashSeed } from '@busbar/blocks';
import {
  createMocker,
  DEFAULT_KV_BYTES_PER_TOKEN,
  type MockDelta,
  type Mocker,
  type MockerConfig,
} from '@busbar/mocker';
import { limit, type TransferInfo, type WorkerInfo } from '@busbar/protocol';
import { refuse, refuseShape } from './admission.ts';
import { MockTransfer } from './mock-transfer.ts';
import { Pacer } from './pacer.ts';
import type {
  Engine,
  EngineDelta,
  EngineLoad,
  EngineRequest,
  EngineSink,
  FetchReport,
  StagedEnd,
  SubmitResult,
} from './port.ts';
import type { TransferAddress } from './transfer/types.ts';

export interface MockEngineOptions {
  model: string;
  role: WorkerInfo['role'];
  mocker: MockerConfig;
  /** False: the engine behaves as one that was started without KV events and knows no block set. */
  emitKvEvents: boolean;
  clock: Clock;
  /** What one token occupies in the cache, over all layers; decides how many bytes a transfer moves. */
  kvBytesPerToken?: number;
  /** Exchange KV with other mock engines: a prefill engine listens there, a decode engine fetches. Absent: it cannot. */
  transfer?: TransferAddress;
  /** How long staged KV waits for its fetch to begin; absent takes the limit of the wire. */
  stagedKvMs?: number;
}

/**
 * The model may lag behind the clock by this much and catch up; what is lost beyond it (a suspended machine) is lost, so that
 * it does not come out as a burst.
 */
const MAX_LAG_MS = 1_000;
const VERSION = '1';

/** An engine that computes nothing and takes as long as a real one: the mocker, stepped in real time. */
export function createMockEngine(options: MockEngineOptions): Engine {
  return new MockEngine(options);
}

class MockEngine implements Engine {
  readonly #options: MockEngineOptions;
  readonly #mocker: Mocker;
  readonly #pacer: Pacer;
  readonly #plainHasher: BlockHasher;
  readonly #transfer: MockTransfer | undefined;
  /** Of running requests, and of those that staged their KV. */
  readonly #keys = new Set<number>();
  #sink: EngineSink | undefined;
  #isStepping = false;
  #isStopping = false;
  #hasFailed = false;

  constructor(options: MockEngineOptions) {
    this.#options = options;
    this.#mocker = createMocker(options.mocker);
    this.#pacer = new Pacer(options.clock, (dueMs) => this.#onDue(dueMs));
    this.#plainHasher = new BlockHasher(options.mocker.blockSize, hashSeed());
    this.#transfer = this.#createTransfer();
  }

  async start(sink: EngineSink, signal: AbortSignal): Promise<WorkerInfo> {
    signal.throwIfAborted();
    this.#sink = sink;
    try {
      const transfer = await this.#transfer?.open();
      signal.throwIfAborted();
      return this.#describe(transfer);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  submit(request: EngineRequest): SubmitResult {
    const refusal = this.#refuse(request);
    if (refusal !== undefined) return refusal;
    const seed = hashSeed(request);
    const isPlain = request.lora === undefined && request.cacheSalt === undefined;
    const hasher = isPlain
      ? this.#plainHasher
      : new BlockHasher(this.#options.mocker.blockSize, seed);
    const hashes = hasher.hash(request.tokens);
    this.#keys.add(request.key);
    this.#mocker.submit({
      key: request.key,
      tokens: request.tokens,
      hashes,
      hashSeed: seed,
      maxTokens: request.maxTokens,
      minTokens: request.minTokens,
      ignoreEos: request.ignoreEos,
      stopTokenIds: request.stopTokenIds,
      seed: answerSeed(request, hashes),
      stagesKv: request.stageKv !== undefined,
      fetchesKv: request.kvSource !== undefined,
    });
    this.#transfer?.expect(request, hashes, seed);
    this.#wake();
    return { kind: 'accepted' };
  }

  abort(key: number): void {
    if (this.#transfer?.release(key) === true) return;
    this.#transfer?.forget(key);
    this.#mocker.abort(key);
    this.#wake();
  }

  load(): EngineLoad {
    return this.#mocker.load();
  }

  blocks(): ReturnType<Engine['blocks']> {
    if (!this.#options.emitKvEvents) return [];
    return [{ dpRank: 0, tier: 'device', hashes: this.#mocker.blocks() }];
  }

  resetCache(): Promise<void> {
    this.#mocker.resetCache();
    this.#wake();
    return Promise.resolve();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#transfer?.close();
    this.#pacer.cancel();
    const nowMs = this.#options.clock.monotonicMs();
    for (const key of this.#keys) this.#mocker.abort(key);
    if (this.#isStepping) this.#finishStep(nowMs);
    while (this.#keys.size > 0 && this.#mocker.beginStep(nowMs) !== undefined) {
      this.#finishStep(nowMs);
    }
    this.#sink = undefined;
  }

  #createTransfer(): MockTransfer | undefined {
    const { transfer: address, role, model, mocker, clock } = this.#options;
    if (address === undefined) return undefined;
    const { kvBytesPerToken = DEFAULT_KV_BYTES_PER_TOKEN, stagedKvMs = limit('stagedKvMs') } =
      this.#options;
    const options = {
      address,
      isServer: role === 'prefill',
      engineVersion: VERSION,
      model,
      blockSize: mocker.blockSize,
      kvBytesPerToken,
      stagedKvMs,
      clock,
    };
    return new MockTransfer(options, {
      onStagedEnd: (key, how) => this.#onStagedEnd(key, how),
      onFetchBegin: (key) => this.#sink?.onFetchBegin(key),
      onFetchBusy: (key) => this.#sink?.onFetchEnd(key, { outcome: 'busy', bytes: 0 }),
      onFetchEnd: (key, report, hasBegun) => this.#onFetchEnd(key, report, hasBegun),
    });
  }

  #describe(transfer: TransferInfo | undefined): WorkerInfo {
    const { model, role, mocker, emitKvEvents } = this.#options;
    return {
      model,
      engine: 'mock',
      engineVersion: `${VERSION} ${mocker.profile.name}`,
      blockSize: mocker.blockSize,
      kvBlocks: mocker.kvBlocks,
      role,
      dpRanks: 1,
      contextTokens: this.#mocker.contextTokens,
      maxRunning: mocker.profile.maxRunning,
      kvEvents: emitKvEvents,
      prefillTokensPerMs: mocker.profile.prefillTokensPerMs * mocker.speed,
      decodeStepMs: mocker.profile.decodeStepMs / mocker.speed,
      ...(transfer === undefined ? {} : { transfer }),
    };
  }

  #refuse(request: EngineRequest): SubmitResult | undefined {
    if (this.#sink === undefined || this.#isStopping) {
      return refuse('WORKER_FAULT', 'the engine does not run');
    }
    if (this.#keys.has(request.key)) return refuse('WORKER_BAD_REQUEST', 'the key is in use');
    const refusal = refuseShape(request, this.#mocker.contextTokens);
    if (refusal !== undefined) return refusal;
    if (request.stageKv === undefined && request.kvSource === undefined) return undefined;
    const reason =
      this.#transfer === undefined
        ? 'this engine exchanges no KV'
        : this.#transfer.refusal(request);
    return reason === undefined ? undefined : refuse('WORKER_BAD_REQUEST', reason);
  }

  #onStagedEnd(key: number, how: StagedEnd): void {
    this.#guard(() => {
      this.#mocker.releaseStaged(key);
      this.#keys.delete(key);
      this.#sink?.onStagedEnd(key, how);
      this.#wake();
    });
  }

  #onFetchEnd(key: number, report: FetchReport, hasBegun: boolean): void {
    this.#guard(() => {
      if (hasBegun) this.#sink?.onFetchEnd(key, report);
      if (report.outcome === 'ok') this.#mocker.kvArrived(key);
      else if (report.outcome === 'failed') this.#mocker.kvFailed(key, report.reason ?? '');
      this.#wake();
    });
  }

  /** What goes wrong inside the engine is its fault, and nobody else's exception. */
  #guard(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Begins a step soon, unless one runs: what is asked for in the same turn of the loop goes into one batch. */
  #wake(): void {
    if (this.#isStepping || this.#isStopping || this.#pacer.isArmed) return;
    if (this.#sink === undefined) return;
    this.#pacer.arm(this.#options.clock.monotonicMs());
  }

  #onDue(dueMs: number): void {
    this.#guard(() => {
      if (this.#isStepping) this.#finishStep(dueMs);
      const nowMs = this.#options.clock.monotonicMs();
      const beginMs = Math.max(dueMs, nowMs - MAX_LAG_MS);
      const plan = this.#mocker.beginStep(beginMs);
      if (plan === undefined) return;
      this.#isStepping = true;
      this.#pacer.arm(beginMs + plan.durationMs);
      for (const { key, fromBlock } of plan.fetches) this.#transfer?.fetch(key, fromBlock);
    });
  }

  #finishStep(nowMs: number): void {
    this.#isStepping = false;
    const { deltas, kv } = this.#mocker.endStep(nowMs);
    const sink = this.#sink;
    assert(sink !== undefined, 'only a started engine steps');
    const told = deltas.map((delta) => this.#tell(delta));
    if (kv.length > 0 && this.#options.emitKvEvents) {
      sink.onKv({ dpRank: 0, tier: 'device', changes: kv });
    }
    if (told.length > 0) sink.onStep({ deltas: told });
  }

  #tell(delta: MockDelta): EngineDelta {
    const told = toEngineDelta(delta);
    if (delta.finish === 'none') return told;
    const isWhole = delta.finish === 'stop' || delta.finish === 'length';
    const transfer = isWhole ? this.#transfer?.stage(delta.key) : undefined;
    if (transfer !== undefined) return { ...told, transfer };
    this.#keys.delete(delta.key);
    this.#transfer?.forget(delta.key);
    return told;
  }

  #fail(cause: Error): void {
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    const transfer = this.#transfer;
    this.#isStopping = true;
    this.#isStepping = false;
    this.#pacer.cancel();
    const error = { code: 'WORKER_FAULT', message: 'the engine failed', retryable: true };
    const running = [...this.#keys].filter((key) => transfer?.isStaged(key) !== true);
    const deltas = running.map(
      (key): EngineDelta => ({ key, tokens: new Uint32Array(0), finish: 'error', error }),
    );
    for (const key of running) this.#keys.delete(key);
    if (deltas.length > 0) this.#sink?.onStep({ deltas });
    this.#sink?.onFault(cause);
    // Fetches and staged prompts end as they do when the engine stops; the fault is told already.
    this.stop().catch(() => {});
  }
}

function toEngineDelta(delta: MockDelta): EngineDelta {
  const { key, finish, cachedTokens, error } = delta;
  const engineDelta: EngineDelta = { key, tokens: Uint32Array.from(delta.tokens), finish };
  if (cachedTokens !== undefined) engineDelta.cachedTokens = cachedTokens;
  if (error !== undefined) engineDelta.error = error;
  return engineDelta;
}

/** Equal prompts and seeds get equal answers (FNV-1a over the last block hash, the tokens behind it and the seed). */
function answerSeed({ tokens, sampling }: EngineRequest, hashes: Uint32Array): number {
  let state = 0x811c9dc5;
  const mix = (word: number): void => {
    state = Math.imul(state ^ word, 0x01000193) >>> 0;
  };
  mix(hashes.at(-2) ?? 0);
  for (let at = Math.max(0, tokens.length - 256); at < tokens.length; at++) mix(tokens[at]!);
  const { seed = 0 } = sampling;
  mix(seed);
  const high = Math.trunc(seed / 2 ** 32);
  if (high !== 0) mix(high);
  return state;
}
