/** What a message's number says about the messages before it. */
export type SequenceVerdict =
  /** It follows the last one. */
  | 'next'
  /** It was heard before, by a replay. */
  | 'repeat'
  /** Messages are missing before it. */
  | 'gap'
  /** The publisher counts from 0 again: a new process. */
  | 'restart';

/** Judges the numbers of one publisher, which counts its messages from 0. */
export class SequenceTracker {
  /** The number that should come next; what is below is known. */
  #next = 0;
  /** The last number that was published live; a publisher never repeats it. */
  #lastLive = -1;

  get next(): number {
    return this.#next;
  }

  /** `sequence` was published: judged by what came before it. */
  hear(sequence: number): SequenceVerdict {
    const isRestart = sequence <= this.#lastLive;
    if (isRestart) this.#next = 0;
    this.#lastLive = sequence;
    if (isRestart) return 'restart';
    return this.judge(sequence);
  }

  /** Whether `sequence` can be used now; for replayed messages, and for a published one after a replay. */
  judge(sequence: number): Exclude<SequenceVerdict, 'restart'> {
    if (sequence < this.#next) return 'repeat';
    return sequence === this.#next ? 'next' : 'gap';
  }

  /** Everything up to `sequence` is known or given up. */
  accept(sequence: number): void {
    this.#next = sequence + 1;
  }

  /** A new publisher is expected. */
  reset(): void {
    this.#next = 0;
    this.#lastLive = -1;
  }
}
