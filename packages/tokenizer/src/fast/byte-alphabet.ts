/**
 * The byte alphabet of byte-level BPE (GPT-2): every byte has one printable character. Bytes that are printable in Latin-1
 * stand for themselves; the others, in order, are U+0100, U+0101, ...
 */
const CHARACTERS: string[] = [];
/** The byte of each character code of the alphabet, -1 for the rest. */
const BYTES = new Int16Array(0x144).fill(-1);

for (let byte = 0, next = 0x100; byte < 256; byte++) {
  const printable =
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const character = String.fromCharCode(printable ? byte : next++);
  CHARACTERS.push(character);
  BYTES[character.charCodeAt(0)] = byte;
}

/** The character that stands for a byte (0 to 255). */
export function characterOfByte(byte: number): string {
  return CHARACTERS[byte & 255]!;
}

/** The bytes that a token of a byte-level vocabulary stands for; undefined when a character is outside of the alphabet. */
export function bytesOfToken(token: string): Uint8Array | undefined {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTES[token.charCodeAt(i)] ?? -1;
    if (byte < 0) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}
