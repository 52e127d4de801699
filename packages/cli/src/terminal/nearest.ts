import { closest, distance } from 'fastest-levenshtein';

/** The candidate that a misspelt word most likely meant; undefined when none is near. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (candidates.length === 0) return undefined;
  const best = closest(word, candidates);
  return distance(word, best) <= Math.max(2, word.length * 0.3) ? best : undefined;
}
