import assert from 'node:assert/strict';
import { after, afterEach, before, type TestContext, test } from 'node:test';
import OpenAI from 'openai';
import { ProtocolClient } from '../nats/protocol-client.ts';
import { BLOCK_SIZE, MODEL, NAMESPACE, promptTokens, VllmStack } from './vllm-stack.ts';

/** The first transfer takes a second or two on cores that two Python processes share; more when others use them too. */
const ANSWER_MS = 60_000;
/** Below the lease that workers give vLLM. */
const LEFT_MS = 20_000;

/** The worker's own limit of the first transfer, once more after one that failed, and a busy machine. */
const PROVEN_MS = 180_000;

let stack: VllmStack;
let openai: OpenAI;

function tellProven(ms: number): void {
  process.stdout.write(`# KV came over the new link ${(ms / 1_000).toFixed(1)} s later\n`);
}

before(async () => {
  stack = await VllmStack.start(['prefill', 'decode'], {
    tell: (line) => process.stdout.write(`# ${line}\n`),
    router: { BUSBAR_DISAGGREGATION: 'always' },
    worker: { BUSBAR_KV_CONNECTOR: 'nixl', BUSBAR_KV_BUFFER_DEVICE: 'cpu' },
  });
  tellProven(await stack.proven(PROVEN_MS));
  openai = new OpenAI({
    baseURL: `${stack.url}/v1`,
    apiKey: 'unused',
    maxRetries: 0,
    timeout: ANSWER_MS,
  });
});
afterEach((t) => {
  if ('passed' in t && !t.passed) process.stdout.write(`${stack.outputs()}\n`);
});
after(() => stack?.[Symbol.asyncDispose]());

/** vLLM keeps an end that is no whole character to itself; Busbar shows it as U+FFFD, as the rest of such bytes. */
function characters(answer: OpenAI.Completion): string | undefined {
  return answer.choices[0]?.text.replaceAll('\uFFFD', '');
}

test('a split request gives the text of a whole one', async (t: TestContext) => {
  const decode = stack.ofRole('decode');
  const direct = new OpenAI({ baseURL: `${decode.vllmUrl}/v1`, apiKey: 'unused', maxRetries: 0 });
  const fetchedTokens = (): Promise<number> => {
    const labels = 'external_kv_transfer';
    return stack.metric(decode.vllmUrl, 'vllm:prompt_tokens_by_source_total', labels);
  };
  // The block that proved the link.
  const fetchedBefore = await fetchedTokens();
  assert.ok(fetchedBefore > 0);
  let promptTokenCount = 0;
  for (const [i, words] of [10, 30, 80].entries()) {
    // Text: of ids that are no whole characters, vLLM's text would begin with a part of the prompt.
    const prompt = Array.from({ length: words }, (_, k) => `word${(k * 7 + i * 31) % 97}`).join(
      ' ',
    );
    const request = {
      model: MODEL,
      prompt,
      max_tokens: 24,
      temperature: 0,
      ignore_eos: true,
    };
    const beganMs = performance.now();
    const split = await openai.completions.create(request);
    const ms = performance.now() - beganMs;
    const whole = await direct.completions.create(request);
    assert.equal(split.usage?.completion_tokens, 24);
    assert.equal(characters(split), characters(whole), prompt);
    assert.equal(split.usage?.prompt_tokens, whole.usage?.prompt_tokens);
    promptTokenCount += split.usage?.prompt_tokens ?? 0;
    t.diagnostic(`${split.usage?.prompt_tokens} tokens: ${ms.toFixed(0)} ms`);
  }
  const splits = await stack.metric(stack.ofRole('router').adminUrl, 'busbar_router_splits_total');
  assert.equal(splits, 3);
  // What decode fetched it did not compute.
  const fetched = (await fetchedTokens()) - fetchedBefore;
  assert.ok(fetched > promptTokenCount * 0.9, `${fetched} of ${promptTokenCount}`);
  t.diagnostic(`${fetched} of ${promptTokenCount} prompt tokens came over NIXL`);
});

test('prefill and decode on two vLLMs over NIXL give the tokens of one', async (t: TestContext) => {
  const { url } = stack.nats;
  const client = await ProtocolClient.connect(url, {
    namespace: NAMESPACE,
    blockSize: BLOCK_SIZE,
  });
  try {
    const [prefill, decode] = [stack.ofRole('prefill'), stack.ofRole('decode')];
    const sampling = { temperature: 0 };
    for (const [i, length] of [33, 250].entries()) {
      const tokens = promptTokens(length, 300 + i);
      const stageKv = { transferId: `t-${i}` };
      const first = { maxTokens: 1, sampling, stageKv };
      const { answer: staged } = await client.work(prefill.id, MODEL, tokens, first);
      assert.match(await client.finished(staged, ANSWER_MS), /^(stop|length)$/);
      const { transfer } = staged;
      assert.ok(transfer !== undefined);
      const beganMs = performance.now();
      const kvSource = { prefillWorkerId: prefill.id, transfer, validForMs: LEFT_MS };
      const second = { maxTokens: 24, sampling, kvSource };
      const { ack, answer } = await client.work(decode.id, MODEL, tokens, second);
      assert.equal(ack.kind, 'accepted');
      assert.equal(await client.finished(answer, ANSWER_MS), 'length', answer.errorCode);
      t.diagnostic(`${length} tokens: ${(performance.now() - beganMs).toFixed(0)} ms to decode`);
      assert.deepEqual(answer.tokens, await stack.direct(decode, tokens, 24));
      assert.deepEqual(answer.tokens, await stack.direct(prefill, tokens, 24));
    }
  } finally {
    await client.close();
  }
});
