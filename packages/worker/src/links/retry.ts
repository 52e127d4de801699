/** A link that is only busy is well again in seconds; one that is broken costs a try every two minutes. */
const RETRY_MS = [1_000, 5_000, 30_000, 120_000];

/** How long to leave a link alone after `failures` tries in a row that failed, at least one. */
export function retryAfterMs(failures: number): number {
  return RETRY_MS[Math.min(failures, RETRY_MS.length) - 1]!;
}
