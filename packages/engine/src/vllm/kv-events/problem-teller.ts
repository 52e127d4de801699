import type { KvEventsProblem, KvEventsProblemKind } from './port.ts';

/** A broken publisher may err with every message; a log does not gain by each. */
const PAUSE_MS = 1_000;

interface Told {
  count: number;
  atMs: number;
}

/** Tells problems, at most once a second for each kind and rank, and counts all of them. */
export class ProblemTeller {
  readonly #onProblem: (problem: KvEventsProblem) => void;
  readonly #nowMs: () => number;
  readonly #told = new Map<string, Told>();

  constructor(onProblem: (problem: KvEventsProblem) => void, nowMs: () => number) {
    this.#onProblem = onProblem;
    this.#nowMs = nowMs;
  }

  tell(kind: KvEventsProblemKind, dpRank: number, message: string): void {
    const key = `${kind} ${dpRank}`;
    const told = this.#told.get(key) ?? { count: 0, atMs: Number.NEGATIVE_INFINITY };
    this.#told.set(key, told);
    told.count++;
    const nowMs = this.#nowMs();
    if (nowMs - told.atMs < PAUSE_MS) return;
    told.atMs = nowMs;
    this.#onProblem({ kind, dpRank, message, count: told.count });
  }

  count(kind: KvEventsProblemKind): number {
    let count = 0;
    for (const [key, told] of this.#told) {
      if (key.startsWith(`${kind} `)) count += told.count;
    }
    return count;
  }
}
