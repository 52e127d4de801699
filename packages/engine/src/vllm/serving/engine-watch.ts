import { limit } from '@busbar/protocol';
import type { Run } from './run.ts';

const EVERY_MS = 1_000;

/**
 * Which requests have waited too long. A request that waits for its first token while others get theirs is queued, not stuck; one
 * whose tokens stop while others go on is stuck; and when nothing comes for anybody, all are. Fetches have a limit of their own.
 */
export function findStuck(runs: Iterable<Run>, nowMs: number, silenceMs: number): Run[] {
  const all = [...runs].filter((run) => !run.isFetching);
  const limitMs = silenceMs + prefillMs(all);
  const lastHeardMs = Math.max(...all.map((run) => run.lastHeardMs));
  if (nowMs - lastHeardMs >= limitMs) return all;
  return all.filter((run) => run.firstTokenMs !== undefined && nowMs - run.lastHeardMs >= limitMs);
}

/** How long an engine may say nothing because it computes the longest of these prompts. */
function prefillMs(runs: readonly Run[]): number {
  let tokens = 0;
  for (const { firstTokenMs, request } of runs) {
    if (firstTokenMs === undefined) tokens = Math.max(tokens, request.tokens.length);
  }
  return tokens * limit('slowPrefillMsPerToken');
}

/** Which requests wait for KV that does not come: the engine itself would wait for ever, and others may go on meanwhile. */
export function findOverdueFetches(runs: Iterable<Run>, nowMs: number): Run[] {
  return [...runs].filter((run) => run.isFetching && nowMs >= run.fetchUntilMs);
}

/** Looks for stuck requests once a second while there are requests. */
export class EngineWatch {
  readonly #look: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(look: () => void) {
    this.#look = look;
  }

  start(): void {
    this.#timer ??= setInterval(this.#look, EVERY_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
