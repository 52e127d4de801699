import type { SplitStep } from './split.ts';

/** One item of a regular expression: a class, an escape, the start of a group, the end of one with its quantifier, a character. */
const ITEM =
  /\[(?:\\.|[^\\\]])*\]|\\[pP]\{[^}]*\}|\\u\{[^}]*\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\k<[^>]*>|\\.|\(\?<[=!]|\)[*+{]?|[^]/gu;
/** Look-behind, anchors, borders of words, back references, repeated groups, any character. */
const REACHES = /^(?:\(\?<[=!]|[\^$.]|\\[bBk1-9].*|\)[*+{])$/u;
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** What Digits becomes: a run without digits is cut elsewhere for nothing that stands behind it, however long it is. */
const DIGITS = new Set([String.raw`[^\d]+|\d+`, String.raw`[^\d]+|\d`]);

/**
 * Whether the patterns can be seen to look at no text across "letter, space, letter" however long it is: nothing in them looks
 * back, depends on where the text begins or ends, or repeats over both a space and a letter. Answers no when in doubt.
 */
export function staysBetweenWords(steps: readonly SplitStep[]): boolean {
  return steps.every(({ pattern }) => {
    if (pattern.flags !== 'gu') return false;
    return DIGITS.has(pattern.source) || (pattern.source.match(ITEM) ?? []).every(isShort);
  });
}

function isShort(item: string): boolean {
  if (REACHES.test(item)) return false;
  if (item.length === 1 || (!item.startsWith('[') && !item.startsWith('\\'))) return true;
  const one = new RegExp(`^${item}$`, 'u');
  return !one.test(' ') || !Array.from(LETTERS).some((letter) => one.test(letter));
}
