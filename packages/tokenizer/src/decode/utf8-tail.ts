/**
 * How many bytes at the end of `bytes[0 … length]` begin a UTF-8 character that is not complete and can still become one:
 * 0 to 3. Bytes that can no longer become a character do not count.
 */
export function incompleteTail(bytes: Uint8Array, length: number): number {
  const furthest = Math.min(3, length);
  for (let back = 1; back <= furthest; back++) {
    const lead = bytes[length - back]!;
    if ((lead & 0xc0) === 0x80) continue;
    const needed = sequenceLength(lead);
    if (needed <= back) return 0;
    return back === 1 || secondByteFits(lead, bytes[length - back + 1]!) ? back : 0;
  }
  return 0;
}

function sequenceLength(lead: number): number {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  return lead >= 0xf0 && lead <= 0xf4 ? 4 : 1;
}

/** The ranges of table 3-7 of the Unicode standard that are narrower than 80 to BF. */
function secondByteFits(lead: number, second: number): boolean {
  if (lead === 0xe0) return second >= 0xa0;
  if (lead === 0xed) return second <= 0x9f;
  if (lead === 0xf0) return second >= 0x90;
  return lead !== 0xf4 || second <= 0x8f;
}
