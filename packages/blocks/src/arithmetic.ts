/**
 * Unsigned 64-bit arithmetic on BigInt. V8 keeps such a value in a machine register, and allocates nothing, as long as every
 * single step is wrapped in `BigInt.asUintN(64, …)` and the function is inlined; hence the wraps that look redundant.
 */
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

export function xor64(a: bigint, b: bigint): bigint {
  return BigInt.asUintN(64, a ^ b);
}

export function low32(a: bigint): bigint {
  return BigInt.asUintN(64, a & LOW_32);
}

export function high32(a: bigint): bigint {
  return BigInt.asUintN(64, BigInt.asUintN(64, a) >> 32n);
}

export function rotl64(a: bigint, bits: bigint): bigint {
  return BigInt.asUintN(64, a << bits) | (a >> (64n - bits));
}

/** Swaps the order of the four bytes of an unsigned 32-bit value. */
export function swap32(a: bigint): bigint {
  return (
    ((a & 0xffn) << 24n) | ((a & 0xff00n) << 8n) | ((a >> 8n) & 0xff00n) | ((a >> 24n) & 0xffn)
  );
}

const BYTES_EVEN = 0x00ff00ff00ff00ffn;
const PAIRS_EVEN = 0x0000ffff0000ffffn;

/** Swaps the order of the eight bytes. */
export function swap64(a: bigint): bigint {
  const bytes = BigInt.asUintN(
    64,
    BigInt.asUintN(64, BigInt.asUintN(64, a & BYTES_EVEN) << 8n) |
      BigInt.asUintN(64, BigInt.asUintN(64, a >> 8n) & BYTES_EVEN),
  );
  const pairs = BigInt.asUintN(
    64,
    BigInt.asUintN(64, BigInt.asUintN(64, bytes & PAIRS_EVEN) << 16n) |
      BigInt.asUintN(64, BigInt.asUintN(64, bytes >> 16n) & PAIRS_EVEN),
  );
  return BigInt.asUintN(64, BigInt.asUintN(64, pairs << 32n) | BigInt.asUintN(64, pairs >> 32n));
}

/** The 128-bit product of two values, its halves xored. */
export function mulFold64(a: bigint, b: bigint): bigint {
  const aLow = low32(a);
  const aHigh = high32(a);
  const bLow = low32(b);
  const bHigh = high32(b);
  const low = mul64(aLow, bLow);
  const left = mul64(aHigh, bLow);
  const cross = add64(add64(high32(low), low32(left)), mul64(aLow, bHigh));
  const upper = add64(add64(high32(left), high32(cross)), mul64(aHigh, bHigh));
  const lower = BigInt.asUintN(64, BigInt.asUintN(64, cross << 32n) | low32(low));
  return xor64(upper, lower);
}
