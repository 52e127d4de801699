/** The value that this part of sorted values does not exceed (nearest rank); 0 of none. */
export function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;
}
