import assert from 'node:assert/strict';
import type { KvChange } from '@busbar/protocol';
import type {
  EngineDelta,
  EngineRequest,
  EngineSink,
  FetchReport,
  KvChanges,
  StagedEnd,
} from './port.ts';

const WAIT_MS = 10_000;

interface SeenFetch {
  key: number;
  report?: FetchReport;
}

/** Collects what an engine says, in order. */
export class Recorder implements EngineSink {
  readonly order: ('kv' | 'step')[] = [];
  readonly deltas: EngineDelta[] = [];
  readonly faults: Error[] = [];
  /** Reusable blocks as the KV events tell them. */
  readonly blocks = new Set<string>();
  readonly stagedEnds: { key: number; how: StagedEnd }[] = [];
  readonly fetches: SeenFetch[] = [];
  kvCalls = 0;
  #waiters: (() => void)[] = [];

  onStep({ deltas }: { deltas: EngineDelta[] }): void {
    this.order.push('step');
    for (const delta of deltas) this.deltas.push({ ...delta, tokens: delta.tokens.slice() });
    this.#notify();
  }

  onKv({ changes }: KvChanges): void {
    this.order.push('kv');
    this.kvCalls++;
    for (const change of changes) this.#apply(change);
    this.#notify();
  }

  onCacheReset(): void {
    this.blocks.clear();
  }

  onStagedEnd(key: number, how: StagedEnd): void {
    this.stagedEnds.push({ key, how });
    this.#notify();
  }

  onFetchBegin(key: number): void {
    this.fetches.push({ key });
    this.#notify();
  }

  onFetchEnd(key: number, report: FetchReport): void {
    const open = this.fetches.find((fetch) => fetch.key === key && fetch.report === undefined);
    assert.ok(open !== undefined, 'a fetch that ends has begun');
    open.report = report;
    assert.equal(this.#tokensOf(key), 0, 'no token before the end of the fetch');
    this.#notify();
  }

  onInfo(): void {}

  onFault(error: Error): void {
    this.faults.push(error);
    this.#notify();
  }

  of(key: number): EngineDelta[] {
    return this.deltas.filter((delta) => delta.key === key);
  }

  finish(key: number): string | undefined {
    return this.of(key).find((delta) => delta.finish !== 'none')?.finish;
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const deadline = performance.now() + WAIT_MS;
    while (!holds()) {
      const restMs = deadline - performance.now();
      assert.ok(restMs > 0, `waited too long for: ${what}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(restMs, 50));
        this.#waiters.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  stagedEnd(key: number): StagedEnd | undefined {
    const ends = this.stagedEnds.filter((end) => end.key === key);
    assert.ok(ends.length <= 1, 'staged KV ends once');
    return ends[0]?.how;
  }

  #tokensOf(key: number): number {
    return this.of(key).reduce((sum, delta) => sum + delta.tokens.length, 0);
  }

  #apply(change: KvChange): void {
    if (change.kind === 'cleared') return this.blocks.clear();
    for (const block of blockNames(change.hashes)) {
      if (change.kind === 'stored') this.blocks.add(block);
      else this.blocks.delete(block);
    }
  }

  #notify(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }
}

/** The one number that a request's deltas tell, with the first of them or with the last. */
export function cachedTokensOf(deltas: readonly EngineDelta[]): number | undefined {
  const told = deltas.filter((delta) => delta.cachedTokens !== undefined);
  assert.equal(told.length, 1);
  assert.ok(told[0] === deltas[0] || told[0] === deltas.at(-1));
  return told[0]?.cachedTokens;
}

/** `high:low` of each block, to be compared and looked up. */
export function blockNames(hashes: Uint32Array): string[] {
  const names: string[] = [];
  for (let at = 0; at < hashes.length; at += 2) names.push(`${hashes[at + 1]}:${hashes[at]}`);
  return names;
}

/** Tokens that any vocabulary of 60 has; prompts with another `salt` share no block. */
export function prompt(length: number, salt = 0): Uint32Array {
  return Uint32Array.from({ length }, (_, at) => 10 + ((at * 7 + salt * 131) % 50));
}

/** A request that goes on to its `maxTokens`, unless `more` says otherwise. */
export function request(
  key: number,
  tokens: Uint32Array,
  more: Partial<EngineRequest> = {},
): EngineRequest {
  return {
    key,
    tokens,
    maxTokens: 8,
    minTokens: 0,
    ignoreEos: true,
    stopTokenIds: [],
    sampling: {},
    ...more,
  };
}
