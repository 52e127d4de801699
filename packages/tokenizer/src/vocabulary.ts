/** How a token turns into text. */
export const TOKEN_KIND = {
  /** No such token, or a special one: gives no text. */
  silent: 0,
  /** Its bytes are whole characters. */
  text: 1,
  /** Its bytes begin or end inside of a character, or are no UTF-8. */
  bytes: 2,
} as const;

/** The bytes of every token, packed over shared memory so that all threads read one copy. */
export interface PackedVocabulary {
  readonly bytes: Uint8Array;
  /** Token `id` is `bytes[offsets[id] … offsets[id + 1]]`. One longer than the vocabulary. */
  readonly offsets: Uint32Array;
  /** One of TOKEN_KIND per id. */
  readonly kinds: Uint8Array;
}

/** Ids are list places; a hole in the list is an id without text. `silent` ids keep their bytes but give no text. */
export function packVocabulary(
  tokens: readonly (Uint8Array | undefined)[],
  silent: ReadonlySet<number>,
): PackedVocabulary {
  let total = 0;
  for (const token of tokens) total += token?.length ?? 0;
  const bytes = new Uint8Array(new SharedArrayBuffer(total));
  const offsets = new Uint32Array(new SharedArrayBuffer((tokens.length + 1) * 4));
  const kinds = new Uint8Array(new SharedArrayBuffer(tokens.length));
  let at = 0;
  for (let id = 0; id < tokens.length; id++) {
    offsets[id] = at;
    const token = tokens[id];
    if (token === undefined) continue;
    bytes.set(token, at);
    at += token.length;
    if (!silent.has(id)) kinds[id] = isText(token) ? TOKEN_KIND.text : TOKEN_KIND.bytes;
  }
  offsets[tokens.length] = at;
  return { bytes, offsets, kinds };
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function isText(bytes: Uint8Array): boolean {
  if (bytes.every((byte) => byte < 0x80)) return true;
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
}

/** The bytes of one token as a view; empty for an id outside of the vocabulary. */
export function tokenBytes(vocabulary: PackedVocabulary, id: number): Uint8Array {
  const end = vocabulary.offsets[id + 1];
  return end === undefined
    ? vocabulary.bytes.subarray(0, 0)
    : vocabulary.bytes.subarray(vocabulary.offsets[id], end);
}
