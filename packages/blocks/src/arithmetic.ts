/** Unsigned 64-bit arithmetic on BigInt: all values are 0 to 2^64 - 1, and results wrap. */
const LOW_32 = 0xffffffffn;

export function add64(a: bigint, b: bigint): bigint {
  return BigInt.asUintN(64, a + b);
}

export function sub64(a: bigint, b: bigint): bigint {
  return BigInt.asUintN(64, a - b);
}

export function mul64(a: bigint, b: bigint): bigint {
  return BigInt.asUintN(64, a * b);
}

export function rotl64(a: bigint, bits: bigint): bigint {
  return BigInt.asUintN(64, a << bits) | (a >> (64n - bits));
}

/** The four bytes of an unsigned 32-bit value in reverse order. */
export function swap32(a: bigint): bigint {
  return (
    ((a & 0xffn) << 24n) | ((a & 0xff00n) << 8n) | ((a >> 8n) & 0xff00n) | ((a >> 24n) & 0xffn)
  );
}

/** The eight bytes in reverse order. */
export function swap64(a: bigint): bigint {
  return (swap32(a & LOW_32) << 32n) | swap32(a >> 32n);
}

/** The 128-bit product of two values, its halves xored. */
export function mulFold64(a: bigint, b: bigint): bigint {
  const product = a * b;
  return BigInt.asUintN(64, product) ^ (product >> 64n);
}
