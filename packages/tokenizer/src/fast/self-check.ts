import { createRng, type Rng } from '@busbar/base';
import { AddedTokenSplitter } from '../added-token-splitter.ts';
import type { HfEncoder } from '../huggingface/hf-encoder.ts';
import type { AddedToken } from '../huggingface/tokenizer-json.ts';
import { IdBuffer } from '../id-buffer.ts';
import { FastEncoder } from './fast-encoder.ts';
import type { FastModel } from './fast-model.ts';

/** What goes before and after a text that is encoded with `addSpecialTokens`. */
export interface Frame {
  readonly prefix: Uint32Array;
  readonly suffix: Uint32Array;
}

const RANDOM_TEXTS = 250;

const NASTY = [
  '',
  ' ',
  '\0',
  '\ufeffmark',
  "I'm, you're, he'LL, they've, it's, we'd, don’t, 'ſ",
  'tabs\t\tand  runs   of    spaces \n\n \r\n\r \u00a0\u2003\u3000\u0085\u2028 end  ',
  '0 12 345 6789 01234567 ½ ² ٣٤ Ⅷ 1,234.56e-7',
  'e\u0301 é A\u030a Å ﬁ ｶﾞ 가 \u1112\u1161\u11ab \u0344 \u2126 K',
  '👩‍👩‍👧 👍🏽 🇩🇪🇫🇷 ❤️ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 \u200d\ufe0f',
  '삼겹살 日本語テキスト 汉字没有空格 עברית العربية ไทย हिन्दी 𝔘𝔫𝔦 𐍈',
  'if (a[i] != b->c) { return f(x) << 2; } // TODO: /* ok? */ #!@$%^&*()_+-=~`|',
  'camelCase snake_case SCREAMING Title İıßẞŉǅ',
  '\ufffd\uffff\u{10ffff}\u{e000}',
  `${'a'.repeat(300)} ${'汉字'.repeat(100)} ${' '.repeat(300)}.${'=-'.repeat(150)}`,
];

/** The tokens around a text, taken from what Hugging Face's library adds to one; undefined when it is no plain frame. */
export function frameOf(hf: HfEncoder): Frame | undefined {
  const bare = hf.encode('a', { addSpecialTokens: false, parseSpecial: false });
  const framed = hf.encode('a', { addSpecialTokens: true, parseSpecial: false });
  for (let at = 0; at + bare.length <= framed.length; at++) {
    if (bare.every((id, i) => id === framed[at + i])) {
      return { prefix: framed.slice(0, at), suffix: framed.slice(at + bare.length) };
    }
  }
  return undefined;
}

/**
 * Encodes fixed nasty texts and random ones from a fixed seed with both paths, in all modes. Answers undefined when all ids
 * are equal, else a sentence with the first text that differs.
 */
export function selfCheck(
  model: FastModel,
  frame: Frame,
  addedTokens: readonly AddedToken[],
  hf: HfEncoder,
): string | undefined {
  const fast = new FastEncoder(model);
  const out = new IdBuffer();
  const splitters = {
    parsing: new AddedTokenSplitter(addedTokens),
    plain: new AddedTokenSplitter(addedTokens.filter((token) => !token.special)),
  };
  for (const text of checkedTexts(addedTokens)) {
    for (const parseSpecial of [true, false]) {
      const sections = (parseSpecial ? splitters.parsing : splitters.plain).split(text);
      for (const section of sections) {
        if (typeof section === 'string') fast.encodeInto(section, out);
        else out.push(section);
      }
      const ids = [...frame.prefix, ...out.take(), ...frame.suffix];
      const truth = hf.encode(text, { addSpecialTokens: true, parseSpecial });
      if (ids.length !== truth.length || ids.some((id, i) => id !== truth[i])) {
        return `the fast encoder gives other ids for ${JSON.stringify(text.slice(0, 80))}`;
      }
    }
  }
  return undefined;
}

function* checkedTexts(addedTokens: readonly AddedToken[]): Generator<string> {
  yield* NASTY;
  const contents = addedTokens.slice(0, 64).map((token) => token.content);
  yield contents.join('');
  yield contents.map((content) => `${content} x${content.slice(0, -1)}`).join('\n');
  const rng = createRng(20_000);
  for (let i = 0; i < RANDOM_TEXTS; i++) yield randomText(rng, contents);
}

/** A short text mixed from the kinds of characters that tokenizers treat apart. Well-formed. */
export function randomText(rng: Rng, contents: readonly string[]): string {
  const kinds = [
    () => String.fromCharCode(32 + rng.int(95)),
    () => String.fromCharCode(97 + rng.int(26)).repeat(1 + rng.int(4)),
    () => ' \n\r\t\u00a0\u2003\u3000'.charAt(rng.int(7)).repeat(1 + rng.int(3)),
    () => String.fromCharCode(0x4e00 + rng.int(0x5000)),
    () => String.fromCharCode(0xac00 + rng.int(0x2ba4)),
    () => `aeiounAC`.charAt(rng.int(8)) + String.fromCharCode(0x300 + rng.int(0x30)),
    () => String.fromCodePoint(0x1f300 + rng.int(0x600)) + ['', '\u200d', '\ufe0f'][rng.int(3)],
    () => String.fromCodePoint(rng.int(0x3000)),
    () => String.fromCodePoint(rng.int(0x110000)),
    () => ["'s", "'RE", ' the', 'ing', ' 2024', '\r\n', '\0', '...', '::'][rng.int(9)]!,
    () => contents[rng.int(Math.max(1, contents.length))] ?? '<|x|>',
  ];
  let text = '';
  for (let left = 1 + rng.int(16); left > 0; left--) text += kinds[rng.int(kinds.length)]!();
  return text.toWellFormed();
}
