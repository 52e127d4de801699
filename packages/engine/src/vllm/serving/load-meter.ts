import type { EngineLoad } from '../../port.ts';
import type { Run } from './run.ts';

const WEIGHT = 0.1;
/** Shorter prefills say more of the overhead than of the rate. */
const RATE_TOKENS = 128;

/** Reckons the load of an engine from its requests: vLLM's own gauges cost it 75 kB of text each time they are read. */
export class LoadMeter {
  readonly #blockSize: number;
  readonly #kvBlocks: number;
  #storedBlocksTotal = 0;
  #decodeStepMs = 0;
  #prefillTokensPerMs = 0;
  #prefillStepTokens = 0;
  /** Requests whose prefill shared the engine with no other. */
  readonly #alone = new Set<Run>();

  constructor(blockSize: number, kvBlocks: number) {
    this.#blockSize = blockSize;
    this.#kvBlocks = kvBlocks;
  }

  submitted(run: Run, runs: ReadonlyMap<number, Run>): void {
    let prefilling = 0;
    for (const other of runs.values()) {
      if (other.firstTokenMs !== undefined) continue;
      prefilling++;
      this.#alone.delete(other);
    }
    if (prefilling <= 1 && run.request.kvSource === undefined) this.#alone.add(run);
  }

  /** `tokens` arrived `gapMs` behind the delta before. */
  stepped(tokens: number, gapMs: number): void {
    if (tokens === 0) return;
    this.#decodeStepMs = average(this.#decodeStepMs, gapMs / tokens);
  }

  /** What a request must have stored is only known at its end, with its cached tokens. */
  ended(run: Run): void {
    const isAlone = this.#alone.delete(run);
    if (run.firstTokenMs === undefined) return;
    const promptTokens = run.request.tokens.length;
    const cachedTokens = run.cachedTokens ?? 0;
    const whole = Math.floor((promptTokens + run.outputTokens - 1) / this.#blockSize);
    this.#storedBlocksTotal += Math.max(0, whole - Math.ceil(cachedTokens / this.#blockSize));
    const computed = promptTokens - cachedTokens;
    const tookMs = run.firstTokenMs - run.submittedMs;
    if (isAlone && run.cachedTokens !== undefined && computed >= RATE_TOKENS && tookMs > 0) {
      this.#prefillTokensPerMs = average(this.#prefillTokensPerMs, computed / tookMs);
      this.#prefillStepTokens = average(this.#prefillStepTokens, computed);
    }
  }

  /** `stagedBlocks` are held for decode workers, `reusableBlocks` may be given to the next request that matches. */
  read(runs: Iterable<Run>, stagedBlocks: number, reusableBlocks: number): EngineLoad {
    let running = 0;
    let waiting = 0;
    let waitingPrefillTokens = 0;
    let held = stagedBlocks;
    for (const run of runs) {
      if (run.firstTokenMs === undefined) {
        waiting++;
        waitingPrefillTokens += run.request.tokens.length;
      } else {
        running++;
        held += Math.ceil((run.request.tokens.length + run.outputTokens) / this.#blockSize);
      }
    }
    // Requests share blocks, so the sum may be more than there is.
    const activeBlocks = Math.min(this.#kvBlocks, held);
    return {
      running,
      waiting,
      waitingPrefillTokens,
      activeBlocks,
      freeBlocks: Math.max(0, this.#kvBlocks - Math.max(activeBlocks, reusableBlocks)),
      decodeStepMs: this.#decodeStepMs,
      prefillTokensPerMs: this.#prefillTokensPerMs,
      prefillStepTokens: this.#prefillStepTokens,
      storedBlocksTotal: this.#storedBlocksTotal,
      stagedBlocks: Math.min(this.#kvBlocks, stagedBlocks),
    };
  }
}

function average(old: number, value: number): number {
  return old === 0 ? value : old + WEIGHT * (value - old);
}
