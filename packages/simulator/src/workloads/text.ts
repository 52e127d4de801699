import type { Rng } from '@busbar/base';

const VOCABULARY = 150_000;

/** So many random tokens, as words of a text that nobody asked before. */
export function randomTokens(rng: Rng, count: number): Uint32Array {
  const tokens = new Uint32Array(count);
  for (let i = 0; i < count; i++) tokens[i] = 100 + rng.int(VOCABULARY);
  return tokens;
}

/** A uniform integer from `low` to `high`, both included. */
export function between(rng: Rng, low: number, high: number): number {
  return low + rng.int(high - low + 1);
}

/** Time to the next arrival of a Poisson process. */
export function exponentialMs(rng: Rng, meanMs: number): number {
  return -Math.log(1 - rng.next()) * meanMs;
}

/** The numbers below `count` in random order. */
export function permutation(rng: Rng, count: number): number[] {
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = rng.int(i + 1);
    [order[i], order[other]] = [order[other]!, order[i]!];
  }
  return order;
}

/** The parts in one array. */
export function concat(...parts: (Uint32Array | readonly number[])[]): Uint32Array {
  const tokens = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    tokens.set(part, at);
    at += part.length;
  }
  return tokens;
}

/** The tokens that a chat template of Qwen3's kind puts before and after the text of a user. */
export const TEMPLATE_HEAD = Uint32Array.of(1, 2, 3);
export const TEMPLATE_TAIL = Uint32Array.of(4, 3, 1, 5, 3, 6, 7);
