/**
 * Cuts a stream of text at the first stop text. The first is the one that is complete first; of several that end at
 * the same character, the longest. This does not depend on how the text is cut into pieces, so a streamed answer
 * equals the whole one. Text that may still become a stop text is held back until it is decided.
 *
 * One Knuth-Morris-Pratt automaton for each stop text: the work per character does not depend on its length.
 */
export class StopMatcher {
  readonly #patterns: readonly Pattern[];
  #held = '';
  #isStopped = false;

  constructor(stops: readonly string[]) {
    this.#patterns = stops.filter((stop) => stop !== '').map((stop) => new Pattern(stop));
  }

  /** True after a stop text was found; everything behind it is dropped. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** The text that can be shown now. */
  push(piece: string): string {
    if (this.#patterns.length === 0) return piece;
    if (this.#isStopped || piece === '') return '';
    const text = this.#held + piece;
    for (let i = this.#held.length; i < text.length; i++) {
      const matched = this.#advance(text.charCodeAt(i));
      if (matched > 0) {
        this.#isStopped = true;
        this.#held = '';
        return text.slice(0, i + 1 - matched);
      }
    }
    let keep = 0;
    for (const pattern of this.#patterns) keep = Math.max(keep, pattern.matched);
    this.#held = keep === 0 ? '' : text.slice(-keep);
    return keep === 0 ? text : text.slice(0, -keep);
  }

  /** What was held back when the text ends without a stop text. */
  flush(): string {
    const rest = this.#held;
    this.#held = '';
    return rest;
  }

  #advance(unit: number): number {
    let longest = 0;
    for (const pattern of this.#patterns) {
      if (pattern.advance(unit)) longest = Math.max(longest, pattern.matched);
    }
    return longest;
  }
}

class Pattern {
  readonly #text: string;
  /** `#fallback[k]`: length of the longest proper prefix of the text that also ends its first k characters. */
  readonly #fallback: Uint16Array;
  /** Length of the longest prefix of the pattern that ends the text seen so far. */
  matched = 0;

  constructor(text: string) {
    this.#text = text;
    this.#fallback = new Uint16Array(text.length + 1);
    for (let i = 1, k = 0; i < text.length; i++) {
      while (k > 0 && text.charCodeAt(i) !== text.charCodeAt(k)) k = this.#fallback[k]!;
      if (text.charCodeAt(i) === text.charCodeAt(k)) k++;
      this.#fallback[i + 1] = k;
    }
  }

  /** True when this character completes the pattern. */
  advance(unit: number): boolean {
    const text = this.#text;
    let k = this.matched;
    while (k > 0 && text.charCodeAt(k) !== unit) k = this.#fallback[k]!;
    if (text.charCodeAt(k) === unit) k++;
    this.matched = k;
    return k === text.length;
  }
}
