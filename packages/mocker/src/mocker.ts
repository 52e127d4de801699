import { assert } from '@busbar/base';
import { KvCache } from './kv-cache.ts';
import { Sequence } from './sequence.ts';
import { StepRates } from './step-rates.ts';
import type {
  MockDelta,
  Mocker,
  MockerConfig,
  MockerLoad,
  MockRequest,
  StepBatch,
  StepOutput,
  StepPlan,
} from './types.ts';

/** A mock engine with an empty cache. */
export function createMocker(config: MockerConfig): Mocker {
  assert(config.script.length > 0, 'the script has a piece');
  assert(
    config.script.every((piece) => piece.length > 0),
    'no piece of the script is empty',
  );
  assert(config.blockSize > 0 && config.kvBlocks > 0 && config.speed > 0, 'sizes are positive');
  return new ModelledEngine(config);
}

/**
 * Continuous batching as vLLM schedules it: running sequences first, in the order in which they came, then waiting ones as long as
 * tokens, seats and blocks last. When blocks run out, the sequence that came last gives up its own and starts over later. The one
 * that came first always goes on, because a request that fits no empty pool is never queued.
 */
class ModelledEngine implements Mocker {
  readonly contextTokens: number;
  readonly #config: MockerConfig;
  readonly #cache: KvCache;
  readonly #rates = new StepRates();
  readonly #sequences = new Map<number, Sequence>();
  readonly #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  #planned: Sequence[] = [];
  /** What ended between two steps, told with the next one. */
  #deltas: MockDelta[] = [];
  #batch: StepBatch | undefined;
  #beganMs = 0;
  #preempted = 0;

  constructor(config: MockerConfig) {
    this.#config = config;
    this.#cache = new KvCache(config.kvBlocks, config.blockSize);
    this.contextTokens = Math.min(config.contextTokens, config.kvBlocks * config.blockSize);
  }

  submit(request: MockRequest): void {
    const { key, tokens } = request;
    assert(!this.#sequences.has(key), 'request keys are unique');
    assert(tokens.length > 0, 'a prompt has a token');
    const fullBlocks = Math.floor(tokens.length / this.#config.blockSize);
    assert(request.hashes.length === fullBlocks * 2, 'each full block has its hash');
    if (tokens.length >= this.contextTokens) {
      const message = `${tokens.length} prompt tokens leave no room in a context of ${this.contextTokens}`;
      const error = { code: 'WORKER_TOO_LONG', message, retryable: false };
      this.#deltas.push({ key, tokens: [], finish: 'error', error });
      return;
    }
    const cached = this.#cache.cachedTokens(request.hashes, tokens.length);
    const sequence = new Sequence(request, this.#config, this.contextTokens, cached);
    this.#sequences.set(key, sequence);
    this.#waiting.push(sequence);
  }

  abort(key: number): void {
    const sequence = this.#sequences.get(key);
    if (sequence === undefined) return;
    if (sequence.plannedTokens > 0) {
      sequence.isAborted = true;
      return;
    }
    const queue = sequence.isRunning ? this.#running : this.#waiting;
    queue.splice(queue.indexOf(sequence), 1);
    this.#end(sequence);
    this.#deltas.push({ key, tokens: [], finish: 'cancelled' });
  }

  beginStep(nowMs: number): StepPlan | undefined {
    assert(this.#batch === undefined, 'a step ends before the next begins');
    const batch = this.#schedule();
    const isIdle = this.#planned.length === 0;
    if (isIdle && this.#deltas.length === 0 && !this.#cache.hasNews) return undefined;
    this.#batch = batch;
    this.#beganMs = nowMs;
    const durationMs = isIdle ? 0 : this.#config.profile.stepMs(batch) / this.#config.speed;
    return { durationMs, batch };
  }

  endStep(nowMs: number): StepOutput {
    const batch = this.#batch;
    assert(batch !== undefined, 'a step begins before it ends');
    this.#batch = undefined;
    this.#rates.record(batch, nowMs - this.#beganMs);
    const deltas = this.#deltas;
    for (const sequence of this.#planned) this.#settle(sequence, deltas);
    this.#running = this.#running.filter((sequence) => sequence.isRunning);
    const output = { deltas, kv: this.#cache.drain(), preempted: this.#preempted };
    this.#deltas = [];
    this.#planned = [];
    this.#preempted = 0;
    return output;
  }

  load(): MockerLoad {
    let waitingPrefillTokens = 0;
    for (const sequence of this.#waiting) {
      waitingPrefillTokens += sequence.tokens - sequence.expectedCachedTokens;
    }
    for (const sequence of this.#running) {
      if (!sequence.isDecoding) waitingPrefillTokens += sequence.tokens - sequence.computedTokens;
    }
    return {
      running: this.#running.length,
      waiting: this.#waiting.length,
      waitingPrefillTokens,
      freeBlocks: this.#cache.freeBlocks,
      activeBlocks: this.#cache.activeBlocks,
      decodeStepMs: this.#rates.decodeStepMs,
      prefillTokensPerMs: this.#rates.prefillTokensPerMs,
      storedBlocksTotal: this.#cache.storedBlocksTotal,
      stagedBlocks: 0,
    };
  }

  blocks(): Uint32Array {
    return this.#cache.hashes();
  }

  resetCache(): void {
    this.#cache.reset();
  }

  checkInvariants(): void {
    this.#cache.checkInvariants(this.#running);
    for (const sequence of this.#running) {
      assert(sequence.isRunning, 'the running list holds running sequences');
    }
    for (const sequence of this.#waiting) {
      assert(!sequence.isRunning && sequence.blocks.length === 0, 'waiting sequences hold nothing');
    }
    const known = this.#running.length + this.#waiting.length;
    assert(known === this.#sequences.size, 'each sequence runs or waits');
  }

  #schedule(): StepBatch {
    let budget = this.#config.profile.maxBatchedTokens;
    for (let at = 0; at < this.#running.length && budget > 0; ) {
      const sequence = this.#running[at]!;
      const tokens = Math.min(sequence.tokens - sequence.computedTokens, budget);
      if (this.#plan(sequence, tokens)) {
        budget -= tokens;
        at++;
      } else {
        this.#preemptLast();
      }
    }
    while (
      this.#preempted === 0 &&
      budget > 0 &&
      this.#running.length < this.#config.profile.maxRunning
    ) {
      const sequence = this.#waiting[0];
      if (sequence === undefined || !this.#admit(sequence)) break;
      const tokens = Math.min(sequence.tokens - sequence.computedTokens, budget);
      const hasRoom = this.#plan(sequence, tokens);
      assert(hasRoom, 'an admitted sequence has its blocks');
      budget -= tokens;
    }
    return this.#describeBatch();
  }

  /** Plans `tokens` for a sequence, with the blocks that they need; false when the pool has none left. */
  #plan(sequence: Sequence, tokens: number): boolean {
    if (!this.#cache.grow(sequence, tokens)) return false;
    sequence.plannedTokens = tokens;
    this.#planned.push(sequence);
    return true;
  }

  /** Starts the first waiting sequence on what the cache holds of it, if all the rest of it fits too. */
  #admit(sequence: Sequence): boolean {
    if (!this.#cache.admit(sequence)) return false;
    sequence.cachedTokens ??= sequence.computedTokens;
    sequence.isRunning = true;
    this.#waiting.shift();
    this.#running.push(sequence);
    return true;
  }

  #preemptLast(): void {
    const victim = this.#running.pop();
    assert(victim !== undefined && this.#running.length > 0, 'a lone sequence always fits');
    this.#stop(victim);
    this.#waiting.unshift(victim);
    this.#preempted++;
  }

  #describeBatch(): StepBatch {
    const batch: StepBatch = {
      prefillTokens: 0,
      prefillPairs: 0,
      decodeSequences: 0,
      activeKvTokens: 0,
      kvTokens: this.#config.kvBlocks * this.#config.blockSize,
    };
    for (const sequence of this.#planned) {
      const tokens = sequence.plannedTokens;
      batch.activeKvTokens += sequence.computedTokens + tokens;
      if (sequence.isDecoding) {
        batch.decodeSequences++;
      } else {
        batch.prefillTokens += tokens;
        batch.prefillPairs += tokens * (sequence.computedTokens + (tokens + 1) / 2);
      }
    }
    return batch;
  }

  #settle(sequence: Sequence, deltas: MockDelta[]): void {
    sequence.computedTokens += sequence.plannedTokens;
    sequence.plannedTokens = 0;
    this.#cache.publish(sequence);
    if (sequence.isAborted) {
      this.#end(sequence);
      deltas.push({ key: sequence.key, tokens: [], finish: 'cancelled' });
    } else if (sequence.computedTokens === sequence.tokens) {
      const delta = sequence.advance();
      if (delta.finish !== 'none') this.#end(sequence);
      deltas.push(delta);
    }
  }

  #end(sequence: Sequence): void {
    this.#stop(sequence);
    this.#sequences.delete(sequence.key);
  }

  #stop(sequence: Sequence): void {
    this.#cache.release(sequence);
    sequence.isRunning = false;
  }
}
