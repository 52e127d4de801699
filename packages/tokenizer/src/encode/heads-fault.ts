import { createRng, type Rng } from '@busbar/base';
import { FastEncoder } from '../fast/fast-encoder.ts';
import type { FastModel } from '../fast/fast-model.ts';
import { randomText } from '../fast/self-check.ts';
import { staysBetweenWords } from '../fast/split-reach.ts';
import { IdBuffer } from '../id-buffer.ts';
import { SegmentEncoder } from './segment-encoder.ts';

const HEADS = 40;
const TEXTS_PER_HEAD = 8;
const CACHE_BYTES = 1024 * 1024;
/** What a pattern that looks far ahead may be waiting for. */
const TAILS = [
  '\n',
  '\r\n\r\n',
  '   ',
  '.',
  '"',
  "'s",
  '7',
  '\u0301',
  '汉',
  '\t',
  ' ',
  ')',
  '```\n',
];

/**
 * Why the ids of a text must not be put together from a known beginning and an encoded rest; undefined when they may: the
 * patterns stay between words, and some 300 pairs of random texts with a common beginning gave the ids of encoding them whole.
 */
export function headsFault(model: FastModel): string | undefined {
  if (!staysBetweenWords(model.splitSteps)) return 'a pattern looks further than a word';
  const encoder = new FastEncoder(model);
  const rng = createRng(30_000);
  const out = new IdBuffer();
  for (let i = 0; i < HEADS; i++) {
    const segments = new SegmentEncoder(encoder, { maxBytes: CACHE_BYTES, knowsHeads: true });
    const head = randomProse(rng, 110 + rng.int(60));
    for (let k = 0; k < TEXTS_PER_HEAD; k++) {
      const text = k === 0 ? head : randomSibling(rng, head);
      segments.encodeInto(text, out);
      const ids = out.take();
      encoder.encodeInto(text, out);
      const whole = out.take();
      if (ids.length !== whole.length || ids.some((id, at) => id !== whole[at])) {
        return `a cut text has other ids: ${JSON.stringify(text.slice(-80))}`;
      }
    }
  }
  return undefined;
}

/** A text that begins like `head` up to any place, also inside of a word, and goes on differently. Well-formed. */
export function randomSibling(rng: Rng, head: string): string {
  const kept = head.slice(0, Math.floor(head.length * (0.4 + 0.6 * rng.next())));
  const tail = TAILS[rng.int(TAILS.length)]!;
  const more = rng.int(2) === 0 ? randomText(rng, []) : randomProse(rng, rng.int(80));
  return `${kept}${tail}${more}${TAILS[rng.int(TAILS.length)]!}`.toWellFormed();
}

/** Words of letters with the marks, digits and line breaks between them that prose, code and other scripts have. Well-formed. */
export function randomProse(rng: Rng, words: number): string {
  const word = (): string =>
    Array.from({ length: 1 + rng.int(9) }, () => String.fromCharCode(97 + rng.int(26))).join('');
  let text = '';
  for (let i = 0; i < words; i++) {
    const kind = rng.int(60);
    if (kind === 0) text += `${randomText(rng, [])} `;
    else if (kind === 1) text += `${rng.int(100_000)} `;
    else if (kind === 2) text += TAILS[rng.int(TAILS.length)]!;
    else if (kind === 3) text += `${word().toUpperCase()}, `;
    else text += `${word()} `;
  }
  return text.toWellFormed();
}
