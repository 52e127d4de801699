/** One merge: two token spellings that become one token. */
export type Merge = readonly [string, string];

/** A NUL cannot stand in a spelling of the byte alphabet. */
const SEPARATOR = '\0';

interface Word {
  symbols: string[];
  readonly count: number;
}

/**
 * Trains byte-pair merges: the most common pair of neighbours first, of equally common ones the first in code point order, so
 * that the same words give the same merges everywhere. `words` are spellings in the byte alphabet with their counts.
 */
export function trainMerges(words: ReadonlyMap<string, number>, wanted: number): Merge[] {
  const corpus = [...words].map(([word, count]): Word => ({ symbols: Array.from(word), count }));
  const pairs = new PairCounts(corpus);
  const merges: Merge[] = [];
  const seen = new Set<string>();
  while (merges.length < wanted) {
    const best = pairs.mostCommon();
    if (best === undefined) break;
    const [left = '', right = ''] = best.split(SEPARATOR);
    // Another pair may already spell this token; a second merge for it would need a second id.
    if (seen.has(left + right)) {
      pairs.ban(best);
      continue;
    }
    seen.add(left + right);
    merges.push([left, right]);
    pairs.merge(best, left, right);
  }
  return merges;
}

class PairCounts {
  readonly #counts = new Map<string, number>();
  readonly #places = new Map<string, Set<Word>>();
  readonly #banned = new Set<string>();

  constructor(corpus: readonly Word[]) {
    for (const word of corpus) this.#account(word, 1);
  }

  mostCommon(): string | undefined {
    let best: string | undefined;
    let most = 0;
    for (const [pair, count] of this.#counts) {
      const wins = count > most || (count === most && best !== undefined && pair < best);
      if (wins && !this.#banned.has(pair)) [best, most] = [pair, count];
    }
    return best;
  }

  ban(pair: string): void {
    this.#banned.add(pair);
  }

  merge(pair: string, left: string, right: string): void {
    for (const word of Array.from(this.#places.get(pair) ?? [])) {
      this.#account(word, -1);
      word.symbols = mergeIn(word.symbols, left, right);
      this.#account(word, 1);
    }
  }

  #account(word: Word, sign: 1 | -1): void {
    const { symbols, count } = word;
    for (let i = 0; i + 1 < symbols.length; i++) {
      const pair = symbols[i]! + SEPARATOR + symbols[i + 1]!;
      const total = (this.#counts.get(pair) ?? 0) + sign * count;
      if (total > 0) this.#counts.set(pair, total);
      else this.#counts.delete(pair);
      const places = this.#places.get(pair) ?? new Set();
      this.#places.set(pair, sign > 0 ? places.add(word) : places);
    }
  }
}

function mergeIn(symbols: readonly string[], left: string, right: string): string[] {
  const merged: string[] = [];
  for (let i = 0; i < symbols.length; i++) {
    const symbol = symbols[i]!;
    const matches = symbol === left && symbols[i + 1] === right;
    merged.push(matches ? left + right : symbol);
    if (matches) i++;
  }
  return merged;
}
