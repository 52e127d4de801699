import { assert } from '@busbar/base';
import type { EngineLoad } from '@busbar/protocol';
import { HeldSequences } from './held-sequences.ts';
import { KvCache } from './kv-cache.ts';
import { Sequence } from './sequence.ts';
import { StepRates } from './step-rates.ts';
import type {
  MockDelta,
  Mocker,
  MockerConfig,
  MockFetch,
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
 * that came first always goes on, because a request that fits no empty pool is never queued; only blocks that are held for others or for
 * contents on the way can make it wait, and those come back.
 *
 * A fetch begins where a prefill would: at the head of the queue, with a seat in sight and room for the whole prompt. It takes no seat
 * until its contents arrived.
 */
class ModelledEngine implements Mocker {
  readonly contextTokens: number;
  readonly #config: MockerConfig;
  readonly #cache: KvCache;
  readonly #rates = new StepRates();
  readonly #sequences = new Map<number, Sequence>();
  readonly #waiting: Sequence[] = [];
  readonly #held = new HeldSequences();
  #running: Sequence[] = [];
  #fetches: MockFetch[] = [];
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
    assert(!(request.stagesKv && request.fetchesKv), 'a request stages or fetches');
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
    if (sequence.state === 'staged') return this.releaseStaged(key);
    if (sequence.plannedTokens > 0) {
      sequence.isAborted = true;
      return;
    }
    this.#unqueue(sequence);
    this.#end(sequence);
    this.#deltas.push({ key, tokens: [], finish: 'cancelled' });
  }

  kvArrived(key: number): void {
    const sequence = this.#held.fetching(key);
    if (sequence === undefined) return;
    sequence.computedTokens = sequence.promptTokens - 1;
    this.#held.arrive(sequence);
  }

  kvFailed(key: number, reason: string): void {
    const sequence = this.#held.fetching(key);
    if (sequence === undefined) return;
    this.#held.remove(sequence);
    this.#end(sequence);
    const error = { code: 'WORKER_KV_LOST', message: reason, retryable: true };
    this.#deltas.push({ key, tokens: [], finish: 'error', error });
  }

  releaseStaged(key: number): void {
    const sequence = this.#held.staged(key);
    if (sequence === undefined) return;
    this.#held.remove(sequence);
    this.#cache.unstage(sequence);
    this.#end(sequence);
  }

  beginStep(nowMs: number): StepPlan | undefined {
    assert(this.#batch === undefined, 'a step ends before the next begins');
    const batch = this.#schedule();
    const isIdle = this.#planned.length === 0;
    if (isIdle && !this.#hasNews()) return undefined;
    const fetches = this.#fetches;
    this.#fetches = [];
    this.#batch = batch;
    this.#beganMs = nowMs;
    const durationMs = isIdle ? 0 : this.#config.profile.stepMs(batch) / this.#config.speed;
    return { durationMs, batch, fetches };
  }

  endStep(nowMs: number): StepOutput {
    const batch = this.#batch;
    assert(batch !== undefined, 'a step begins before it ends');
    this.#batch = undefined;
    this.#rates.record(batch, nowMs - this.#beganMs);
    const deltas = this.#deltas;
    for (const sequence of this.#planned) this.#settle(sequence, deltas);
    for (const sequence of this.#held.arrived) this.#cache.publish(sequence);
    this.#running = this.#running.filter((sequence) => sequence.state === 'running');
    const output = { deltas, kv: this.#cache.drain(), preempted: this.#preempted };
    this.#deltas = [];
    this.#planned = [];
    this.#preempted = 0;
    return output;
  }

  load(): EngineLoad {
    let waitingPrefillTokens = 0;
    for (const sequence of this.#waiting) {
      if (sequence.fetchesKv) continue;
      waitingPrefillTokens += sequence.tokens - sequence.expectedCachedTokens;
    }
    for (const sequence of this.#running) {
      if (!sequence.isDecoding) waitingPrefillTokens += sequence.tokens - sequence.computedTokens;
    }
    return {
      running: this.#running.length,
      waiting: this.#waiting.length + this.#held.waiting,
      waitingPrefillTokens,
      freeBlocks: this.#cache.freeBlocks,
      activeBlocks: this.#cache.activeBlocks,
      decodeStepMs: this.#rates.decodeStepMs,
      prefillTokensPerMs: this.#rates.prefillTokensPerMs,
      prefillStepTokens: this.#rates.prefillStepTokens,
      storedBlocksTotal: this.#cache.storedBlocksTotal,
      stagedBlocks: this.#cache.stagedBlocks,
    };
  }

  blocks(): Uint32Array {
    return this.#cache.hashes();
  }

  resetCache(): void {
    this.#cache.reset();
  }

  checkInvariants(): void {
    this.#cache.checkInvariants([...this.#running, ...this.#held.all()]);
    this.#held.checkInvariants(this.#config.blockSize);
    for (const sequence of this.#running) {
      assert(sequence.state === 'running', 'the running list holds running sequences');
    }
    for (const { state, blocks } of this.#waiting) {
      assert(state === 'waiting' && blocks.length === 0, 'waiting sequences hold nothing');
    }
    const known = this.#running.length + this.#waiting.length + this.#held.size;
    assert(known === this.#sequences.size, 'each sequence runs, waits or is held');
  }

  /** Whether there is something to tell, although nothing is computed. */
  #hasNews(): boolean {
    const told = this.#deltas.length + this.#fetches.length + this.#preempted;
    return told > 0 || this.#cache.hasNews;
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
    while (budget > 0 && this.#running.length < this.#config.profile.maxRunning) {
      const sequence = this.#admitNext();
      if (sequence === undefined) break;
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

  /** Gives a seat to the next sequence that can compute. Those whose contents arrived need no block; a step that preempts admits no others. */
  #admitNext(): Sequence | undefined {
    const arrived = this.#held.arrived[0];
    if (arrived !== undefined) {
      this.#held.remove(arrived);
      return this.#seat(arrived);
    }
    while (this.#preempted === 0) {
      const sequence = this.#waiting[0];
      if (sequence === undefined || !this.#cache.admit(sequence)) break;
      sequence.cachedTokens ??= sequence.computedTokens;
      this.#waiting.shift();
      if (!sequence.fetchesKv) return this.#seat(sequence);
      this.#beginFetch(sequence);
    }
    return undefined;
  }

  #seat(sequence: Sequence): Sequence {
    sequence.state = 'running';
    this.#running.push(sequence);
    return sequence;
  }

  #beginFetch(sequence: Sequence): void {
    const fromBlock = sequence.blocks.length;
    const hasRoom = this.#cache.grow(sequence, sequence.tokens - sequence.computedTokens);
    assert(hasRoom, 'an admitted sequence has its blocks');
    this.#held.fetch(sequence);
    const blocks = sequence.blocks.length - fromBlock;
    this.#fetches.push({ key: sequence.key, fromBlock, blocks });
  }

  #preemptLast(): void {
    const victim = this.#running.pop();
    const mayWait = this.#running.length > 0 || this.#held.size > 0;
    assert(victim !== undefined && mayWait, 'a lone sequence always fits');
    this.#cache.release(victim);
    victim.state = 'waiting';
    victim.fetchesKv = false;
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
      if (delta.finish !== 'none') this.#finish(sequence);
      deltas.push(delta);
    }
  }

  #finish(sequence: Sequence): void {
    if (!sequence.stagesKv) return this.#end(sequence);
    this.#held.stage(sequence);
    this.#cache.stage(sequence);
  }

  #unqueue(sequence: Sequence): void {
    if (sequence.state === 'fetching' || sequence.state === 'arrived') {
      return this.#held.remove(sequence);
    }
    const queue = sequence.state === 'running' ? this.#running : this.#waiting;
    queue.splice(queue.indexOf(sequence), 1);
  }

  #end(sequence: Sequence): void {
    this.#cache.release(sequence);
    sequence.state = 'ended';
    this.#sequences.delete(sequence.key);
  }
}
