import { CUT_MARGIN_CHARS, type Cuts, lastCutUpTo } from '../fast/cut-points.ts';

/** Shorter segments and beginnings cost a few microseconds to encode. */
export const MIN_HEAD_CHARS = 384;
/** Segments are compared when these of the characters at their beginning are equal, or their hash is. */
const KEY_CHARS = 128;
const KEY_STEP = 8;
/** Segments of one key that are compared, the last used first. */
const MAX_PER_KEY = 8;
/** Equal texts are compared in blocks, then in smaller ones, which takes a tenth of the time of single characters. */
const BLOCKS_CHARS = [1024, 64];
/** Finding the cuts costs as much as encoding: it has to gain this factor over the cuts that are known. */
const WORTH_CUTTING = 1.25;

/** An encoded segment. Its cuts are found when the first other text begins like it: most texts are unique. */
export interface CutSegment {
  readonly text: string;
  readonly ids: Uint32Array;
  /** What `keyOf` says of the text. */
  readonly key: number;
  /** The cuts of the first `cutChars` characters. */
  cuts: Cuts;
  cutChars: number;
  /** The next one of the same key, used before this one. */
  next: CutSegment | undefined;
}

/** What is known of the beginning of a text. */
export interface Head {
  /** Characters before the cut; the rest is encoded from here on. */
  readonly offset: number;
  /** The ids of the text before it, which the caller must not change. */
  readonly ids: Uint32Array;
  readonly cuts: Cuts;
  /** The text of the segment it belongs to. */
  readonly source: string;
}

interface Closest {
  readonly segment: CutSegment;
  /** Position of its cut. */
  readonly cut: number;
}

/** Finds segments that begin like another one. Holds no segment longer than its owner, who calls `remove`. */
export class HeadIndex {
  readonly #byKey = new Map<number, CutSegment>();
  readonly #cutsOf: (text: string) => Cuts | undefined;

  constructor(cutsOf: (text: string) => Cuts | undefined) {
    this.#cutsOf = cutsOf;
  }

  get keys(): number {
    return this.#byKey.size;
  }

  /** Adds a segment; of those with an equal key the least recently used goes out. */
  add(segment: CutSegment): void {
    segment.next = this.#byKey.get(segment.key);
    this.#byKey.set(segment.key, segment);
    let last: CutSegment | undefined = segment;
    for (let count = 1; count < MAX_PER_KEY; count++) last = last?.next;
    if (last !== undefined) last.next = undefined;
  }

  remove(segment: CutSegment): void {
    const { key, next } = segment;
    let before = this.#byKey.get(key);
    if (before === segment) {
      if (next === undefined) this.#byKey.delete(key);
      else this.#byKey.set(key, next);
      return;
    }
    while (before !== undefined && before.next !== segment) before = before.next;
    if (before !== undefined) before.next = next;
  }

  /** A head of `text` that is the longest or nearly so, or undefined. */
  find(text: string): Head | undefined {
    const first = this.#byKey.get(keyOf(text));
    if (first === undefined) return undefined;
    const closest = this.#closest(first, text);
    if (closest === undefined) return undefined;
    const { segment, cut } = closest;
    if (segment !== first) {
      this.remove(segment);
      this.add(segment);
    }
    const ids = segment.ids.subarray(0, segment.cuts[cut + 1]);
    const cuts = segment.cuts.subarray(0, cut + 2);
    return { offset: segment.cuts[cut]!, ids, cuts, source: segment.text };
  }

  /** The segment of one key with the longest head of `text`. Finds its cuts first where that is worth while. */
  #closest(first: CutSegment, text: string): Closest | undefined {
    let best: Closest | undefined;
    let offset = 0;
    let uncut: CutSegment | undefined;
    let uncutChars = MIN_HEAD_CHARS;
    for (let segment: CutSegment | undefined = first; segment; segment = segment.next) {
      const common = commonChars(text, segment.text);
      const cut = cutWithin(segment, common);
      if (cut >= 0 && segment.cuts[cut]! > offset) {
        best = { segment, cut };
        offset = segment.cuts[cut]!;
      }
      if (common > segment.cutChars && common > uncutChars) {
        uncut = segment;
        uncutChars = common;
      }
    }
    if (uncut === undefined || uncutChars < MIN_HEAD_CHARS + offset * WORTH_CUTTING) return best;
    const known = uncut.cuts.subarray(0, cutWithin(uncut, uncutChars) + 2);
    const found = this.#cutsOf(uncut.text.slice(0, uncutChars));
    if (found === undefined) return best;
    // A longer beginning has no cuts when normalizing changes it: those of the shorter one hold.
    uncut.cuts = found.length > known.length ? found : known;
    uncut.cutChars = uncutChars;
    const cut = cutWithin(uncut, uncutChars);
    return cut < 0 ? best : { segment: uncut, cut };
  }
}

/** Position of the last cut that lies well inside of the first `common` characters, or a negative number. */
function cutWithin({ cuts, cutChars }: CutSegment, common: number): number {
  return lastCutUpTo(cuts, Math.min(common, cutChars) - CUT_MARGIN_CHARS);
}

/** A hash of the beginning of a text of at least MIN_HEAD_CHARS. */
export function keyOf(text: string): number {
  let hash = 0;
  for (let at = 0; at < KEY_CHARS; at += KEY_STEP)
    hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
  return hash;
}

function commonChars(a: string, b: string): number {
  const end = Math.min(a.length, b.length);
  let at = 0;
  for (const block of BLOCKS_CHARS) {
    while (at + block <= end && a.slice(at, at + block) === b.slice(at, at + block)) at += block;
  }
  while (at < end && a.charCodeAt(at) === b.charCodeAt(at)) at++;
  return at;
}
