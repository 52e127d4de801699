import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { waitFor } from '@busbar/testkit';
import OpenAI from 'openai';
import { ProtocolClient } from '../nats/protocol-client.ts';
import { announcedBlocks } from './announced-blocks.ts';
import { isRunning, processesBelow } from './engine-processes.ts';
import { HeardBlocks } from './heard-blocks.ts';
import { BLOCK_SIZE, MODEL, NAMESPACE, promptTokens, VllmStack } from './vllm-stack.ts';

const ANSWER_MS = 60_000;
const ABORT_MS = 500;
const OUTPUT_TOKENS = 960;
/** What vLLM's log says of it. */
const ABORTED = /Request \S+ aborted/;
const GONE_MS = 30_000;

let stack: VllmStack;
let heard: HeardBlocks;
let client: ProtocolClient;
let openai: OpenAI;

before(async () => {
  stack = await VllmStack.start(['decode'], { tell: say });
  const { url } = stack.nats;
  heard = await HeardBlocks.listen(url, NAMESPACE, stack.ofRole('decode').id);
  client = await ProtocolClient.connect(url, { namespace: NAMESPACE, blockSize: BLOCK_SIZE });
  openai = new OpenAI({ baseURL: `${stack.url}/v1`, apiKey: 'unused', maxRetries: 0 });
});
after(async () => {
  await client?.close();
  await heard?.[Symbol.asyncDispose]();
  await stack?.[Symbol.asyncDispose]();
});

function say(line: string): void {
  process.stdout.write(`# ${line}\n`);
}

/** Token ids of an answer that came over the bus, as a frontend gets it. */
async function overBus(tokens: Uint32Array, maxTokens: number): Promise<number[]> {
  const reply = await client.place(MODEL, tokens, maxTokens);
  assert.ok(reply.kind === 'place', JSON.stringify(reply));
  const { decisionId, workerId } = reply;
  const more = { decisionId, maxTokens, sampling: { temperature: 0 } };
  const { ack, answer } = await client.work(workerId, MODEL, tokens, more);
  assert.equal(ack.kind, 'accepted');
  assert.equal(await client.finished(answer, ANSWER_MS), 'length');
  const { length: outputTokens } = answer.tokens;
  client.life(MODEL, { kind: 'ended', decisionId, workerId, outcome: 'completed', outputTokens });
  return answer.tokens;
}

test('a streamed chat by openai-node through frontend, router and NATS', async (t: TestContext) => {
  const stream = openai.chat.completions.stream({
    model: MODEL,
    messages: [{ role: 'user', content: 'Tell me about rivers.' }],
    max_tokens: 40,
    temperature: 0,
    stream_options: { include_usage: true },
  });
  let deltas = 0;
  stream.on('content', () => deltas++);
  const final = await stream.finalChatCompletion();
  assert.ok(final.usage && final.usage.completion_tokens > 0);
  assert.match(final.choices[0]?.finish_reason ?? '', /^(stop|length)$/);
  t.diagnostic(`${final.usage.completion_tokens} tokens in ${deltas} deltas`);
});

test('tokens equal those of vLLM asked directly', async () => {
  const decode = stack.ofRole('decode');
  for (const [i, length] of [10, 31, 32, 33, 100, 300].entries()) {
    const tokens = promptTokens(length, i);
    const expected = await stack.direct(decode, tokens, 24);
    assert.equal(expected.length, 24);
    assert.deepEqual(await overBus(tokens, 24), expected, `prompt of ${length} tokens`);
  }
});

test('the second request of a prefix hits, by what vLLM itself counts', async (t: TestContext) => {
  const prompt = [...promptTokens(320, 77)];
  const ask = async (end: number[]): Promise<number> => {
    const answer = await openai.completions.create({
      model: MODEL,
      prompt: [...prompt, ...end],
      max_tokens: 2,
      temperature: 0,
    });
    return answer.usage?.prompt_tokens_details?.cached_tokens ?? 0;
  };
  const { vllmUrl } = stack.ofRole('decode');
  const hits = await stack.metric(vllmUrl, 'vllm:prefix_cache_hits_total');
  assert.equal(await ask([21, 22, 23]), 0);
  assert.equal(await ask([24, 25, 26]), 320);
  assert.equal((await stack.metric(vllmUrl, 'vllm:prefix_cache_hits_total')) - hits, 320);
  t.diagnostic('320 of 323 tokens were cached');
});

test('the index is what vLLM announced, after evictions and a cache reset', async (t: TestContext) => {
  const decode = stack.ofRole('decode');
  const router = stack.ofRole('router');
  const agree = async (what: string): Promise<number> => {
    let size = 0;
    await waitFor(
      async () => {
        const { blocks } = await announcedBlocks(decode.vllmUrl);
        assert.deepEqual(heard.blocks, blocks);
        const indexed = await stack.metric(router.adminUrl, 'busbar_router_index_blocks');
        assert.equal(indexed, blocks.size);
        size = blocks.size;
        return true;
      },
      10_000,
      `router and vLLM to agree ${what}`,
    );
    return size;
  };
  // 8 prompts of 15 blocks and their output for a cache of 47; some share their first half, some run at once.
  const prompts = Array.from({ length: 8 }, (_, i) => {
    return Uint32Array.from([...promptTokens(256, i % 3), ...promptTokens(224, 100 + i)]);
  });
  await Promise.all(prompts.slice(0, 2).map((tokens) => overBus(tokens, 40)));
  for (const tokens of prompts.slice(2)) await overBus(tokens, 40);
  const evicted = await agree('after evictions');
  const earlier = await announcedBlocks(decode.vllmUrl);
  assert.ok(earlier.removed > 0, 'nothing was evicted');
  const reset = await fetch(`${decode.vllmUrl}/reset_prefix_cache`, { method: 'POST' });
  assert.equal(reset.status, 200);
  // vLLM tells it with the next step.
  await overBus(promptTokens(100, 55), 2);
  const cleared = await agree('after a reset');
  assert.equal((await announcedBlocks(decode.vllmUrl)).clears, earlier.clears + 1);
  t.diagnostic(`${evicted} blocks after ${earlier.removed} evictions, ${cleared} after the reset`);
});

test(`an abort is seen by vLLM within ${ABORT_MS} ms`, async (t: TestContext) => {
  const decode = stack.ofRole('decode');
  const generated = (): Promise<number> =>
    stack.metric(decode.vllmUrl, 'vllm:generation_tokens_total');
  const generatedBefore = await generated();
  const controller = new AbortController();
  const stream = await openai.completions.create(
    {
      model: MODEL,
      prompt: [...promptTokens(40, 5)],
      max_tokens: OUTPUT_TOKENS,
      temperature: 0,
      stream: true,
      // @ts-expect-error: vLLM's own field, which the frontend takes.
      ignore_eos: true,
    },
    { signal: controller.signal },
  );
  await stream[Symbol.asyncIterator]().next();
  assert.doesNotMatch(decode.process.output, ABORTED);
  const beganMs = performance.now();
  controller.abort();
  await decode.process.waitForOutput(ABORTED, ANSWER_MS);
  const ms = performance.now() - beganMs;
  const tokens = (await generated()) - generatedBefore;
  assert.ok(tokens < OUTPUT_TOKENS, 'the request had ended by itself');
  assert.ok(ms < ABORT_MS, `${ms.toFixed(0)} ms`);
  t.diagnostic(`${ms.toFixed(0)} ms, after ${tokens} of ${OUTPUT_TOKENS} tokens`);
});

test('SIGKILL of the worker leaves no process of vLLM', async (t: TestContext) => {
  const decode = stack.ofRole('decode');
  const processes = processesBelow(decode.process.pid);
  const engine = processes.filter(({ name }) => /VLLM|python/.test(name) && !/guard/.test(name));
  assert.ok(
    engine.some(({ name }) => name.includes('EngineCore')),
    JSON.stringify(processes),
  );
  const beganMs = performance.now();
  decode.process.signal('SIGKILL');
  const gone = async (which: typeof processes): Promise<string> => {
    const left = (): typeof processes => which.filter(({ pid }) => isRunning(pid));
    await waitFor(() => left().length === 0, GONE_MS, 'all to end').catch((error: unknown) => {
      throw new Error(`left: ${JSON.stringify(left())}`, { cause: error });
    });
    return `${which.length} processes gone after ${(performance.now() - beganMs).toFixed(0)} ms`;
  };
  t.diagnostic(`vLLM: ${await gone(engine)}`);
  t.diagnostic(`with what watches over it: ${await gone(processes)}`);
});
