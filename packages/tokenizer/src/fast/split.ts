/** One step of cutting text into pieces. */
export interface SplitStep {
  readonly pattern: RegExp;
  /** What lies between two matches: a piece of its own, or left out. */
  readonly gaps: 'pieces' | 'dropped';
}

/** Cuts text into pieces by the steps in turn, as Hugging Face's Split, Digits and ByteLevel pre-tokenizers do. */
export function splitPieces(text: string, steps: readonly SplitStep[]): string[] {
  const [first, ...rest] = steps;
  if (first === undefined) return [text];
  let pieces = applyStep(text, first);
  for (const step of rest) pieces = pieces.flatMap((piece) => applyStep(piece, step));
  return pieces;
}

function applyStep(text: string, step: SplitStep): string[] {
  const matches = text.match(step.pattern) ?? [];
  if (step.gaps === 'dropped') return matches;
  let covered = 0;
  for (const match of matches) covered += match.length;
  return covered === text.length ? matches : withGaps(text, step.pattern);
}

function withGaps(text: string, pattern: RegExp): string[] {
  const pieces: string[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > end) pieces.push(text.slice(end, match.index));
    pieces.push(match[0]);
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push(text.slice(end));
  return pieces;
}
