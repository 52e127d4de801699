import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CliError } from '../errors.ts';
import { type Asked, fitProbe } from './fit-probe.ts';

/** A frontend whose tokenizer and template are these; it keeps what it was asked. */
function frontend(contextTokens: number, tokensPerWord: number, templateTokens: number) {
  const asked: string[] = [];
  const ask = async (content: string): Promise<Asked> => {
    asked.push(content);
    const promptTokens = templateTokens + Math.ceil(content.split(' ').length * tokensPerWord);
    if (promptTokens >= contextTokens) throw new CliError('CLI_CONTEXT', 'too long');
    return { content, promptTokens, cachedTokens: 0, ttftMs: 1 };
  };
  return { ask, asked };
}

test('a usual context takes one prompt of about 1,500 tokens', async () => {
  const { ask, asked } = frontend(32_768, 1.35, 12);
  const found = await fitProbe(ask, { contextTokens: 32_768, blockSize: 16 });
  assert.ok('promptTokens' in found);
  assert.ok(found.promptTokens > 1_400 && found.promptTokens < 1_600);
  assert.equal(asked.length, 1);
});

test('wherever two blocks fit, two are filled; where one does, one', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 20, max: 4_096 }),
      fc.constantFrom(16, 32, 64, 128, 256),
      fc.double({ min: 1, max: 6, noNaN: true }),
      fc.integer({ min: 3, max: 400 }),
      async (contextTokens, blockSize, tokensPerWord, templateTokens) => {
        const { ask, asked } = frontend(contextTokens, tokensPerWord, templateTokens);
        const found = await fitProbe(ask, { contextTokens, blockSize });
        // A prompt is as long as its words, so that one between two lengths cannot be had.
        const longest = contextTokens - 1 - Math.ceil(tokensPerWord);
        const mayHave = (blocks: number) =>
          longest > blocks * blockSize && longest > templateTokens + 2 * tokensPerWord;
        const tokens = 'promptTokens' in found ? found.promptTokens : 0;
        for (const blocks of [1, 2]) if (mayHave(blocks)) assert.ok(tokens > blocks * blockSize);
        assert.ok('tooLong' in found || tokens > blockSize);
        assert.ok(asked.length <= 12);
        assert.equal(new Set(asked).size, asked.length);
      },
    ),
  );
});

test('what does not fit, or fills no block, is told; other errors are passed on', async () => {
  const none = await fitProbe(frontend(20, 1, 30).ask, { contextTokens: 20, blockSize: 16 });
  assert.deepEqual(none, { tooLong: 'too long' });
  const short = await fitProbe(frontend(60, 1, 30).ask, { contextTokens: 60, blockSize: 64 });
  assert.ok('tooLong' in short);
  assert.match(short.tooLong, /^no block of 64 tokens is filled .* of 5\d$/);
  const broken = fitProbe(
    async () => Promise.reject(new CliError('CLI_HTTP', '503: none')),
    undefined,
  );
  await assert.rejects(broken, /503: none/);
});
