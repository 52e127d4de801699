import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import OpenAI from 'openai';
import { MODEL, promptTokens, VllmStack } from './vllm-stack.ts';

/** A transfer takes milliseconds, and half a minute when both cores of a small machine are busy. */
const ANSWER_MS = 60_000;

let stack: VllmStack;
let openai: OpenAI;

before(async () => {
  stack = await VllmStack.start(['prefill', 'decode'], {
    tell: (line) => process.stdout.write(`# ${line}\n`),
    router: { BUSBAR_DISAGGREGATION: 'always' },
    worker: { BUSBAR_KV_CONNECTOR: 'nixl', BUSBAR_KV_BUFFER_DEVICE: 'cpu' },
  });
  openai = new OpenAI({
    baseURL: `${stack.url}/v1`,
    apiKey: 'unused',
    maxRetries: 0,
    timeout: ANSWER_MS,
  });
});
after(() => stack?.[Symbol.asyncDispose]());

test('prefill and decode on two vLLMs over NIXL give the text of one', async (t: TestContext) => {
  const decode = stack.ofRole('decode');
  const direct = new OpenAI({ baseURL: `${decode.vllmUrl}/v1`, apiKey: 'unused', maxRetries: 0 });
  for (const [i, length] of [40, 100, 300].entries()) {
    const request = {
      model: MODEL,
      prompt: [...promptTokens(length, 200 + i)],
      max_tokens: 24,
      temperature: 0,
      ignore_eos: true,
    };
    const beganMs = performance.now();
    const split = await openai.completions.create(request);
    const ms = performance.now() - beganMs;
    const whole = await direct.completions.create(request);
    assert.equal(split.usage?.completion_tokens, 24);
    assert.equal(split.choices[0]?.text, whole.choices[0]?.text, `prompt of ${length} tokens`);
    t.diagnostic(`${length} tokens: ${ms.toFixed(0)} ms`);
  }
  const splits = await stack.metric(stack.ofRole('router').adminUrl, 'busbar_router_splits_total');
  assert.equal(splits, 3);
  // What decode pulled it did not compute.
  const pulled = await stack.metric(
    decode.vllmUrl,
    'vllm:prompt_tokens_by_source_total',
    'external_kv_transfer',
  );
  assert.ok(pulled > 300, `${pulled} tokens came over NIXL`);
  t.diagnostic(`${pulled} tokens came over NIXL`);
});
