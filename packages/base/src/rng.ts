/** A source of uniform chance that a caller can seed, so that a run can be repeated. */
export interface Rng {
  /** Uniform in [0, 1). */
  next(): number;
  /** Uniform integer in [0, below). `below` is at least 1. */
  int(below: number): number;
  /** An unsigned 32-bit integer. */
  u32(): number;
  /** An independent generator derived from this one. */
  fork(): Rng;
}

const GOLDEN = 0x9e3779b9;

/**
 * A small seeded generator (the public-domain `sfc32`, four 32-bit words of state, period above 2^64 in the mean).
 * Equal seeds give equal sequences on every platform.
 */
export function createRng(seed: number): Rng {
  let a = GOLDEN ^ seed;
  let b = Math.imul(seed, 0x85ebca6b) | 0;
  let c = Math.imul(seed ^ 0xdeadbeef, 0xc2b2ae35) | 0;
  let counter = 1;
  const u32 = (): number => {
    const t = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return t >>> 0;
  };
  for (let i = 0; i < 15; i++) u32();
  const rng: Rng = {
    u32,
    next: () => u32() / 0x1_0000_0000,
    int: (below) => Math.floor((u32() / 0x1_0000_0000) * below),
    fork: () => createRng(u32()),
  };
  return rng;
}
