import type { DecisionRecord } from '@busbar/routing';

export interface LoggedDecision extends DecisionRecord {
  /** RFC 3339. */
  time: string;
}

/** The newest decisions, for a person who wants to know why. */
export class DecisionLog {
  readonly #limit: number;
  readonly #records: { record: DecisionRecord; wallMs: number }[] = [];
  #next = 0;

  constructor(limit = 100) {
    this.#limit = limit;
  }

  add(record: DecisionRecord, wallMs: number): void {
    this.#records[this.#next] = { record, wallMs };
    this.#next = (this.#next + 1) % this.#limit;
  }

  /** Newest first. */
  list(): LoggedDecision[] {
    const found: LoggedDecision[] = [];
    const count = this.#records.length;
    for (let back = 1; back <= count; back++) {
      const entry = this.#records[(this.#next - back + count) % count];
      if (entry !== undefined) {
        found.push({ time: new Date(entry.wallMs).toISOString(), ...entry.record });
      }
    }
    return found;
  }
}
