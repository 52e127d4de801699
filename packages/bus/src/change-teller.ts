import type { BucketChange } from './port.ts';

interface Known {
  value: Uint8Array;
  revision: number;
}

function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/**
 * Turns what a bucket says into the changes that a watch promises: everything anew between `begin` and `end`, then only
 * what differs from what was told before.
 */
export class ChangeTeller {
  readonly #tell: (change: BucketChange) => void;
  readonly #known = new Map<string, Known>();
  /** Keys seen since `begin`; undefined after `end`. */
  #seen: Set<string> | undefined;

  constructor(tell: (change: BucketChange) => void) {
    this.#tell = tell;
  }

  begin(): void {
    this.#seen = new Set();
  }

  /** `value` must stay as it is. */
  put(key: string, value: Uint8Array, revision: number): void {
    const before = this.#known.get(key);
    this.#known.set(key, { value, revision });
    this.#seen?.add(key);
    if (this.#seen === undefined && before && equalBytes(before.value, value)) return;
    this.#tell({ kind: 'put', key, value, revision });
  }

  gone(key: string, revision: number): void {
    this.#seen?.delete(key);
    if (this.#known.delete(key)) this.#tell({ kind: 'gone', key, revision });
  }

  end(): void {
    const seen = this.#seen;
    if (seen === undefined) return;
    this.#seen = undefined;
    for (const [key, { revision }] of this.#known) {
      if (!seen.has(key)) this.gone(key, revision);
    }
    this.#tell({ kind: 'snapshot', keys: seen });
  }
}
