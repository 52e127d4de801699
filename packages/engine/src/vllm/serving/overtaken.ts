import type { Run } from './run.ts';

/**
 * How long a request that others overtake may wait for its first token, in times that a whole engine may be silent: by then all that
 * was ahead of it has had its turn.
 */
const SILENCES = 2;

/**
 * Marks the requests that `ended` has overtaken: it came later, had at least as much to compute, and had its first token before them.
 * An engine that serves in the order of arrival leaves none of those waiting. What of their own prompts is cached is not known
 * yet, so all of it counts; a request that does not say what it found cached proves nothing, nor does one that fetched its KV.
 */
export function markOvertaken(runs: Iterable<Run>, ended: Run): void {
  const { request, cachedTokens, firstTokenMs, submittedMs } = ended;
  if (firstTokenMs === undefined || cachedTokens === undefined) return;
  if (request.kvSource !== undefined) return;
  const computed = request.tokens.length - cachedTokens;
  for (const run of runs) {
    if (run.firstTokenMs !== undefined || run.submittedMs >= submittedMs) continue;
    if (run.request.tokens.length <= computed) run.isOvertaken = true;
  }
}

/** Overtaken requests that have waited too long. Those that fetch KV have a limit of their own. */
export function findOvertaken(runs: Iterable<Run>, nowMs: number, silenceMs: number): Run[] {
  return [...runs].filter(
    (run) =>
      run.isOvertaken &&
      run.firstTokenMs === undefined &&
      !run.isFetching &&
      nowMs - run.submittedMs >= SILENCES * silenceMs,
  );
}
