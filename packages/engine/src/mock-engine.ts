import { assert, type Clock } from '@busbar/base';
import { BlockHasher, hashSeed } from '@busbar/blocks';
import { createMocker, type MockDelta, type Mocker, type MockerConfig } from '@busbar/mocker';
import type { WorkerInfo } from '@busbar/protocol';
import { Pacer } from './pacer.ts';
import type {
  Engine,
  EngineDelta,
  EngineLoad,
  EngineRequest,
  EngineSink,
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

/** Qwen3-0.6B: 28 layers of 8 KV heads of size 128 in two bytes, keys and values. */
export const DEFAULT_KV_BYTES_PER_TOKEN = 114_688;

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
  readonly #keys = new Set<number>();
  #sink: EngineSink | undefined;
  #isStepping = false;

  constructor(options: MockEngineOptions) {
    this.#options = options;
    this.#mocker = createMocker(options.mocker);
    this.#pacer = new Pacer(options.clock, (dueMs) => this.#onDue(dueMs));
    this.#plainHasher = new BlockHasher(options.mocker.blockSize, hashSeed());
  }

  start(sink: EngineSink, signal: AbortSignal): Promise<WorkerInfo> {
    if (signal.aborted) return Promise.reject(new Error('aborted before the engine started'));
    const { model, role, mocker, emitKvEvents } = this.#options;
    this.#sink = sink;
    return Promise.resolve({
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
    });
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
    });
    this.#wake();
    return { kind: 'accepted' };
  }

  abort(key: number): void {
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

  resetCache(): void {
    this.#mocker.resetCache();
    this.#wake();
  }

  stop(): Promise<void> {
    this.#pacer.cancel();
    const nowMs = this.#options.clock.monotonicMs();
    for (const key of this.#keys) this.#mocker.abort(key);
    if (this.#isStepping) this.#finishStep(nowMs);
    while (this.#mocker.beginStep(nowMs) !== undefined) this.#finishStep(nowMs);
    this.#sink = undefined;
    return Promise.resolve();
  }

  #refuse(request: EngineRequest): SubmitResult | undefined {
    const refuse = (
      code: 'WORKER_TOO_LONG' | 'WORKER_BAD_REQUEST' | 'WORKER_FAULT',
      message: string,
    ): SubmitResult => ({ kind: 'refused', code, message, retryable: code === 'WORKER_FAULT' });
    if (this.#sink === undefined) return refuse('WORKER_FAULT', 'the engine does not run');
    if (request.tokens.length === 0) return refuse('WORKER_BAD_REQUEST', 'the prompt is empty');
    if (request.maxTokens < 1) return refuse('WORKER_BAD_REQUEST', 'maxTokens is below 1');
    if (this.#keys.has(request.key)) return refuse('WORKER_BAD_REQUEST', 'the key is in use');
    if (request.tokens.length >= this.#mocker.contextTokens) {
      const text = `${request.tokens.length} prompt tokens leave no room in a context of ${this.#mocker.contextTokens}`;
      return refuse('WORKER_TOO_LONG', text);
    }
    return undefined;
  }

  /** Begins a step soon, unless one runs: what is asked for in the same turn of the loop goes into one batch. */
  #wake(): void {
    if (this.#isStepping || this.#pacer.isArmed || this.#sink === undefined) return;
    this.#pacer.arm(this.#options.clock.monotonicMs());
  }

  #onDue(dueMs: number): void {
    try {
      if (this.#isStepping) this.#finishStep(dueMs);
      const nowMs = this.#options.clock.monotonicMs();
      const beginMs = Math.max(dueMs, nowMs - MAX_LAG_MS);
      const plan = this.#mocker.beginStep(beginMs);
      if (plan === undefined) return;
      this.#isStepping = true;
      this.#pacer.arm(beginMs + plan.durationMs);
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #finishStep(nowMs: number): void {
    this.#isStepping = false;
    const { deltas, kv } = this.#mocker.endStep(nowMs);
    const sink = this.#sink;
    assert(sink !== undefined, 'only a started engine steps');
    for (const delta of deltas) if (delta.finish !== 'none') this.#keys.delete(delta.key);
    if (kv.length > 0 && this.#options.emitKvEvents) {
      sink.onKv({ dpRank: 0, tier: 'device', changes: kv });
    }
    if (deltas.length > 0) sink.onStep({ deltas: deltas.map(toEngineDelta) });
  }

  #fail(cause: Error): void {
    const sink = this.#sink;
    this.#sink = undefined;
    this.#pacer.cancel();
    const error = { code: 'WORKER_FAULT', message: 'the engine failed', retryable: true };
    const deltas = [...this.#keys].map(
      (key): EngineDelta => ({ key, tokens: new Uint32Array(0), finish: 'error', error }),
    );
    this.#keys.clear();
    if (deltas.length > 0) sink?.onStep({ deltas });
    sink?.onFault(cause);
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
  mix(sampling.seed ?? 0);
  return state;
}
