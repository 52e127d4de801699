import { readFile } from 'node:fs/promises';

const COMMON_WORDS = 150;
const ENDINGS = ['s', 'ed', 'ing', 'ly', 'er', 'ion', 'ment', 'ness', 'able', 'al'];
const SNIPPET_COUNT = 30;

/**
 * The words to learn from, with their counts: a list of common English words, most common first, weighted by rank as words of a
 * language are (Zipf), with the endings they usually take, and lines of text and code for punctuation. Both files were
 * written for this project.
 */
export async function corpusPieces(
  split: (text: string) => string[],
): Promise<Map<string, number>> {
  const pieces = new Map<string, number>();
  const add = (piece: string, count: number): void => {
    if (count >= 1) pieces.set(piece, (pieces.get(piece) ?? 0) + Math.round(count));
  };
  const words = new Set((await corpusFile('words.txt')).split(/\s+/).filter(Boolean));
  for (const [rank, word] of [...words].entries()) {
    const count = 1_000_000 / (rank + 20);
    addForms(word, count, add);
    if (rank < COMMON_WORDS || word.length < 4) continue;
    for (const [at, ending] of ENDINGS.entries())
      addForms(inflect(word, ending), count / (4 + at * 3), add);
  }
  for (const piece of split(await corpusFile('snippets.txt'))) add(piece, SNIPPET_COUNT);
  for (const spaces of [2, 4, 6, 8, 12, 16]) add(' '.repeat(spaces), 2000 / spaces);
  return pieces;
}

/** A word as it stands inside of a sentence, at its start, and after punctuation. */
function addForms(word: string, count: number, add: (piece: string, count: number) => void): void {
  const capital = word.charAt(0).toUpperCase() + word.slice(1);
  add(` ${word}`, count);
  add(word, count / 8);
  add(` ${capital}`, count / 10);
  add(capital, count / 12);
}

function inflect(word: string, ending: string): string {
  const dropsE = word.endsWith('e') && /^[aei]/.test(ending);
  return (dropsE ? word.slice(0, -1) : word) + ending;
}

async function corpusFile(name: string): Promise<string> {
  return await readFile(new URL(`./corpus/${name}`, import.meta.url), 'utf8');
}
