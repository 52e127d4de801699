/** Characters between two cuts: a hit encodes half of it again, and each cut takes 8 bytes. */
const SPACING_CHARS = 64;
/** The longest word next to a cut. */
const WORD_CHARS = 24;
/**
 * How far two texts must agree behind a cut. The word behind it and what ends that word lie inside, so that all that matching
 * the piece before the cut has looked at is equal in both.
 */
export const CUT_MARGIN_CHARS = WORD_CHARS + 8;

const SPACE = 0x20;
const LOWER_CASE_BIT = 0x20;

/** Places where a text may be cut: for each its offset in characters and how many ids the text before it has. */
export type Cuts = Uint32Array;

export const NO_CUTS: Cuts = new Uint32Array();

/** The most bytes that the cuts of a text take. */
export function cutBytes(chars: number): number {
  return Math.ceil(chars / SPACING_CHARS) * 2 * Uint32Array.BYTES_PER_ELEMENT;
}

/**
 * Collects the cuts of a text while it is encoded: only between two short words of ASCII letters with one space between them,
 * where no sane pattern looks across and nothing composes. Which models keep to that is for `headsFault` to show.
 */
export class CutPoints {
  readonly #text: string;
  readonly #places: number[] = [];
  #next = SPACING_CHARS;

  constructor(text: string) {
    this.#text = text;
  }

  /** Looks at the end of a piece; `ids` are those of the text before it. */
  visit(previous: string, end: number, ids: number): void {
    const text = this.#text;
    if (end < this.#next || text.charCodeAt(end) !== SPACE) return;
    if (!isWord(previous) || !isWordAt(text, end + 1)) return;
    this.#places.push(end, ids);
    this.#next = end + SPACING_CHARS;
  }

  take(): Cuts {
    return Uint32Array.from(this.#places);
  }
}

/** Position in `cuts` of the last one at most `offset`, or -1. */
export function lastCutUpTo(cuts: Cuts, offset: number): number {
  let low = 0;
  let high = cuts.length >>> 1;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (cuts[middle * 2]! <= offset) low = middle + 1;
    else high = middle;
  }
  return (low - 1) * 2;
}

/** The cuts of a text whose first `offset` characters have the cuts `head` and `ids` ids, and whose rest has the cuts `rest`. */
export function joinCuts(head: Cuts, rest: Cuts, offset: number, ids: number): Cuts {
  const joined = new Uint32Array(head.length + rest.length);
  joined.set(head);
  for (let i = 0; i < rest.length; i += 2) {
    joined[head.length + i] = rest[i]! + offset;
    joined[head.length + i + 1] = rest[i + 1]! + ids;
  }
  return joined;
}

function isLetter(code: number): boolean {
  const lower = code | LOWER_CASE_BIT;
  return lower >= 0x61 && lower <= 0x7a;
}

function isWord(piece: string): boolean {
  if (piece.length > WORD_CHARS) return false;
  const start = piece.charCodeAt(0) === SPACE ? 1 : 0;
  for (let at = start; at < piece.length; at++) if (!isLetter(piece.charCodeAt(at))) return false;
  return piece.length > start;
}

/** Whether a short word begins here and a space, comma or full stop ends it. */
function isWordAt(text: string, start: number): boolean {
  let at = start;
  while (isLetter(text.charCodeAt(at))) at++;
  const follower = text.charCodeAt(at);
  const ends = follower === SPACE || follower === 0x2c || follower === 0x2e;
  return ends && at > start && at - start <= WORD_CHARS;
}
