import { limit } from '@busbar/protocol';
import type { EventHeap } from '../event-heap.ts';

const STAGED_MS = limit('stagedKvMs');

interface Entry {
  isOverdue: boolean;
  /** Breaks the fetch that runs. */
  breakFetch: (() => void) | undefined;
}

/**
 * The staged prompts of a prefill worker, each with its deadline. A fetch that began in time may run over it, and one that breaks
 * leaves the prompt to another try until then.
 */
export class SimStaged {
  readonly #heap: EventHeap;
  readonly #onEnd: (key: number) => void;
  readonly #entries = new Map<number, Entry>();

  /** `onEnd` is called once for each prompt that was added: nobody wants its blocks any more. */
  constructor(heap: EventHeap, onEnd: (key: number) => void) {
    this.#heap = heap;
    this.#onEnd = onEnd;
  }

  add(key: number): void {
    const entry: Entry = { isOverdue: false, breakFetch: undefined };
    this.#entries.set(key, entry);
    this.#heap.after(STAGED_MS, () => {
      if (this.#entries.get(key) !== entry) return;
      entry.isOverdue = true;
      if (entry.breakFetch === undefined) this.#end(key);
    });
  }

  /** A fetch begins; false when there is nothing to fetch, or it is being fetched already. */
  open(key: number, breakFetch: () => void): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined || entry.breakFetch !== undefined) return false;
    entry.breakFetch = breakFetch;
    return true;
  }

  /** The fetch of it is over. */
  close(key: number, isReceived: boolean): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    entry.breakFetch = undefined;
    if (isReceived || entry.isOverdue) this.#end(key);
  }

  /** Gives up what is staged; false when nothing is. */
  release(key: number): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    this.#end(key);
    entry.breakFetch?.();
    return true;
  }

  #end(key: number): void {
    this.#entries.delete(key);
    this.#onEnd(key);
  }
}
