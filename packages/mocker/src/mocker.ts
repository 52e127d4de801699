import { assert } from '@busbar/base';
import type { KvChange } from '@busbar/protocol';
import { BlockPool } from './block-pool.ts';
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
  readonly #pool: BlockPool;
  readonly #rates = new StepRates();
  readonly #sequences = new Map<number, Sequence>();
  readonly #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  #planned: Sequence[] = [];
  /** Blocks that the cache holds for the sequence under consideration; kept between calls to spare the garbage collector. */
  readonly #found: number[] = [];
  /** What ended between two steps, told with the next one. */
  #deltas: MockDelta[] = [];
  /** Hash words that left the cache since the last `endStep`. */
  #dropped: number[] = [];
  #batch: StepBatch | undefined;
  #beganMs = 0;
  #preempted = 0;
  #storedBlocks = 0;

  constructor(config: MockerConfig) {
    this.#config = config;
    this.#pool = new BlockPool(config.kvBlocks);
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
    const cached = this.#findCached(request.hashes, tokens.length) * this.#config.blockSize;
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
    if (isIdle && this.#deltas.length === 0 && this.#dropped.length === 0) return undefined;
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
    const kv: KvChange[] = [];
    if (this.#dropped.length > 0) {
      kv.push({ kind: 'removed', hashes: Uint32Array.from(this.#dropped) });
    }
    for (const sequence of this.#planned) this.#settle(sequence, deltas, kv);
    this.#running = this.#running.filter((sequence) => sequence.isRunning);
    const output = { deltas, kv, preempted: this.#preempted };
    this.#deltas = [];
    this.#dropped = [];
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
      freeBlocks: this.#pool.free,
      activeBlocks: this.#pool.active,
      decodeStepMs: this.#rates.decodeStepMs,
      prefillTokensPerMs: this.#rates.prefillTokensPerMs,
      storedBlocksTotal: this.#storedBlocks,
    };
  }

  blocks(): Uint32Array {
    const byPosition: number[][] = [];
    this.#pool.eachHash((low, high, position) => {
      (byPosition[position] ??= []).push(low, high);
    });
    // Blocks that a running step took are told as removed only when it ends.
    return Uint32Array.from([...byPosition.flat(), ...this.#dropped]);
  }

  resetCache(): void {
    this.#pool.dropCached(this.#dropped);
  }

  checkInvariants(): void {
    this.#pool.checkInvariants();
    const refs = new Int32Array(this.#pool.size);
    for (const sequence of this.#running) {
      assert(sequence.isRunning, 'the running list holds running sequences');
      const computed = sequence.computedTokens + sequence.plannedTokens;
      const blocks = Math.ceil(computed / this.#config.blockSize);
      assert(sequence.blocks.length >= blocks, 'a sequence holds all that it computed');
      for (const block of sequence.blocks) refs[block]!++;
    }
    for (const sequence of this.#waiting) {
      assert(!sequence.isRunning && sequence.blocks.length === 0, 'waiting sequences hold nothing');
    }
    refs.forEach((count, block) => {
      assert(count === this.#pool.refs(block), 'references match the sequences');
    });
    const known = this.#running.length + this.#waiting.length;
    assert(known === this.#sequences.size, 'each sequence runs or waits');
  }

  #schedule(): StepBatch {
    let budget = this.#config.profile.maxBatchedTokens;
    for (let at = 0; at < this.#running.length && budget > 0; ) {
      const sequence = this.#running[at]!;
      const tokens = Math.min(sequence.tokens - sequence.computedTokens, budget);
      if (this.#grow(sequence, tokens)) {
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
      const hasRoom = this.#grow(sequence, tokens);
      assert(hasRoom, 'an admitted sequence has its blocks');
      budget -= tokens;
    }
    return this.#describeBatch();
  }

  /** Plans `tokens` for a sequence, with the blocks that they need; false when the pool has none left. */
  #grow(sequence: Sequence, tokens: number): boolean {
    const needed = Math.ceil((sequence.computedTokens + tokens) / this.#config.blockSize);
    while (sequence.blocks.length < needed) {
      const block = this.#pool.take(this.#dropped);
      if (block < 0) return false;
      sequence.blocks.push(block);
    }
    sequence.plannedTokens = tokens;
    this.#planned.push(sequence);
    return true;
  }

  /** Starts the first waiting sequence on what the cache holds of it, if all the rest of it fits too. */
  #admit(sequence: Sequence): boolean {
    const { blockSize } = this.#config;
    const found = this.#findCached(sequence.chain.hashes, sequence.tokens);
    let needed = Math.ceil(sequence.tokens / blockSize) - found;
    for (const block of this.#found) if (this.#pool.refs(block) === 0) needed++;
    if (needed > this.#pool.available) return false;
    for (const block of this.#found) {
      this.#pool.retain(block);
      sequence.blocks.push(block);
    }
    sequence.publishedBlocks = found;
    sequence.computedTokens = found * blockSize;
    sequence.cachedTokens ??= sequence.computedTokens;
    sequence.isRunning = true;
    this.#waiting.shift();
    this.#running.push(sequence);
    return true;
  }

  /** Fills `#found` with the cached leading blocks; at least one token is always left to compute, for its logits. */
  #findCached(hashes: Uint32Array, tokens: number): number {
    const limit = Math.floor((tokens - 1) / this.#config.blockSize);
    this.#found.length = 0;
    for (let at = 0; at < limit && at * 2 < hashes.length; at++) {
      const block = this.#pool.find(hashes[at * 2]!, hashes[at * 2 + 1]!);
      if (block < 0) break;
      this.#found.push(block);
    }
    return this.#found.length;
  }

  #preemptLast(): void {
    const victim = this.#running.pop();
    assert(victim !== undefined && this.#running.length > 0, 'a lone sequence always fits');
    this.#releaseBlocks(victim);
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

  #settle(sequence: Sequence, deltas: MockDelta[], kv: KvChange[]): void {
    sequence.computedTokens += sequence.plannedTokens;
    sequence.plannedTokens = 0;
    this.#publish(sequence, kv);
    if (sequence.isAborted) {
      this.#end(sequence);
      deltas.push({ key: sequence.key, tokens: [], finish: 'cancelled' });
    } else if (sequence.computedTokens === sequence.tokens) {
      const delta = sequence.advance();
      if (delta.finish !== 'none') this.#end(sequence);
      deltas.push(delta);
    }
  }

  /** Makes the blocks that are full by now reusable and tells of those that the cache did not hold yet. */
  #publish(sequence: Sequence, kv: KvChange[]): void {
    const full = Math.floor(sequence.computedTokens / this.#config.blockSize);
    if (full === sequence.publishedBlocks) return;
    const { hashes } = sequence.chain;
    let from = sequence.publishedBlocks;
    const tell = (to: number): void => {
      if (to > from) kv.push({ kind: 'stored', hashes: hashes.slice(from * 2, to * 2) });
      this.#storedBlocks += to - from;
      from = to + 1;
    };
    for (let at = sequence.publishedBlocks; at < full; at++) {
      const block = sequence.blocks[at]!;
      if (!this.#pool.publish(block, hashes[at * 2]!, hashes[at * 2 + 1]!, at)) tell(at);
    }
    if (full > from) tell(full);
    sequence.publishedBlocks = full;
  }

  #end(sequence: Sequence): void {
    this.#releaseBlocks(sequence);
    this.#sequences.delete(sequence.key);
  }

  /** The tail goes first, so that of one prompt the end is forgotten before the beginning. */
  #releaseBlocks(sequence: Sequence): void {
    for (let at = sequence.blocks.length - 1; at >= 0; at--)
      this.#pool.release(sequence.blocks[at]!);
    sequence.blocks.length = 0;
    sequence.publishedBlocks = 0;
    sequence.computedTokens = 0;
    sequence.isRunning = false;
  }
}
