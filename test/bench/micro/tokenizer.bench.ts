/**
 * Encoding, decoding, templates, load time and memory of the tokenizer, beside Hugging Face's library.
 * `node --expose-gc test/bench/micro/tokenizer.bench.ts [folder]`; without a folder, the project's own small tokenizer.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createRng } from '@busbar/base';
import { loadTokenizer, type Tokenizer } from '@busbar/tokenizer';
import { repeat, report, timeMs } from './measure.ts';

const OWN = fileURLToPath(
  new URL('../../../packages/tokenizer/models/busbar-small', import.meta.url),
);
const WORDS = new URL('../../../packages/tokenizer/scripts/corpus/words.txt', import.meta.url);
const REPETITIONS = 15;
const CHAT_REQUESTS = 10_000;
const PROMPTS = 3000;
/** V8 gives the pages of an ended thread back after about eight seconds. */
const PAGES_BACK_MS = 10_000;

const rng = createRng(2026);
const words = readFileSync(WORDS, 'utf8').split(/\s+/).filter(Boolean);
const folder = process.argv[2] ?? OWN;
const rssMb = (): number => process.memoryUsage().rss / 1e6;

/** A text that no cache of whole segments has seen. */
const freshText = (count: number): string =>
  Array.from({ length: count }, () => words[rng.int(words.length)]).join(' ');

type Encode = (text: string) => { readonly length: number };

function measureEncode(name: string, encode: Encode, text: () => string): void {
  const runUs = (): number => {
    const fresh = text();
    return timeMs(() => encode(fresh)) * 1000;
  };
  report(`${name}, first time`, 'us', [runUs()]);
  repeat(REPETITIONS, runUs);
  report(name, 'us', repeat(REPETITIONS, runUs));
}

function measureTexts(path: string, encode: Encode): void {
  for (const count of [200, 1500, 10_000]) {
    measureEncode(`${path}: ${count} words`, encode, () => freshText(count));
  }
  const han = (): string => String.fromCharCode(0x4e00 + rng.int(20_000));
  const salt = (): string => `${rng.u32()} `;
  const adversarial = {
    '20,000 equal letters': () => salt() + 'a'.repeat(20_000),
    '20,000 spaces': () => salt() + ' '.repeat(20_000),
    '20,000 Han characters': () => salt() + Array.from({ length: 20_000 }, han).join(''),
    '20,000 combining marks': () => salt() + '\u0301'.repeat(20_000),
  };
  for (const [name, text] of Object.entries(adversarial)) {
    measureEncode(`${path}: ${name}`, encode, text);
  }
}

function encodeInline(tokenizer: Tokenizer, text: string): Uint32Array {
  const ids = tokenizer.encode(text, { parseSpecial: true });
  if (ids instanceof Promise) throw new Error('not encoded inline');
  return ids;
}

function measureDetokenizer(tokenizer: Tokenizer): void {
  const ids = encodeInline(tokenizer, `${freshText(5000)} 삼겹살 👩‍👩‍👧 é`);
  const one = Array.from(ids, (id) => Uint32Array.of(id));
  const runNs = (): number => {
    const detokenizer = tokenizer.createDetokenizer();
    const ms = timeMs(() => {
      for (const id of one) detokenizer.push(id);
    });
    return (ms * 1e6) / one.length;
  };
  runNs();
  report('detokenize', 'ns/token', repeat(REPETITIONS, runNs));
}

/** Prompts of a running process that nobody has seen whole: unique ones, and the same words followed by 24 others. */
function measurePrompts(tokenizer: Tokenizer): void {
  for (const count of [200, 1500]) {
    const shared = freshText(count);
    const kinds = {
      [`${count} unique words`]: () => freshText(count),
      [`${count} known words and 24 others`]: () => `${shared} ${freshText(24)}`,
    };
    for (const [name, content] of Object.entries(kinds)) {
      const values = repeat(PROMPTS, () => {
        const prompt = `<|im_start|>user\n${content()}<|im_end|>\n`;
        return timeMs(() => encodeInline(tokenizer, prompt)) * 1000;
      });
      report(`prompt: ${name}`, 'us', values.slice(PROMPTS / 2));
    }
  }
}

/** Chats with a shared system prompt of 1,000 words and a new question each. */
function measureChats(tokenizer: Tokenizer): void {
  const system = { role: 'system', content: freshText(1000) };
  let renderMs = 0;
  let encodeMs = 0;
  for (let i = 0; i < CHAT_REQUESTS; i++) {
    const messages = [system, { role: 'user', content: freshText(30) }];
    let prompt = '';
    renderMs += timeMs(() => (prompt = tokenizer.renderChat(messages)));
    encodeMs += timeMs(() => encodeInline(tokenizer, prompt));
  }
  report('chat: render the template', 'us', [(renderMs * 1000) / CHAT_REQUESTS]);
  report('chat: encode, system prompt known', 'us', [(encodeMs * 1000) / CHAT_REQUESTS]);
}

async function measureHuggingFace(): Promise<void> {
  const { Tokenizer: Library } = await import('@huggingface/tokenizers');
  const read = (name: string): unknown => JSON.parse(readFileSync(join(folder, name), 'utf8'));
  const startMs = performance.now();
  const library = new Library(read('tokenizer.json'), read('tokenizer_config.json'));
  report('huggingface: load, on the calling thread', 'ms', [performance.now() - startMs]);
  measureTexts('huggingface', (text) => library.encode(text, { add_special_tokens: false }).ids);
  report('huggingface: memory of the process after', 'MB', [rssMb()]);
}

const beforeMb = rssMb();
const startMs = performance.now();
const tokenizer = await loadTokenizer({ path: folder, threads: 0 });
report('load, in a thread', 'ms', [performance.now() - startMs]);
measureTexts(tokenizer.encoderKind, (text) => encodeInline(tokenizer, text));
measurePrompts(tokenizer);
measureDetokenizer(tokenizer);
measureChats(tokenizer);
await sleep(PAGES_BACK_MS);
globalThis.gc?.();
report('memory of the process before loading', 'MB', [beforeMb]);
report(`memory after loading and ${CHAT_REQUESTS} chats`, 'MB', [rssMb()]);
await measureHuggingFace();
await tokenizer.close();
