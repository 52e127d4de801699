import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@busbar/testkit';
import { type ChatResult, Cluster, type ClusterOptions, type Member, words } from './cluster.ts';

/** A small cache per token keeps the bytes of a test few; they are moved and checked all the same. */
const WORKER = {
  BUSBAR_PROFILE: 'seed-8gb',
  BUSBAR_KV_BLOCKS: '4000',
  BUSBAR_KV_BYTES_PER_TOKEN: '4096',
};
const SPLIT: ClusterOptions = {
  prefill: 1,
  decode: 2,
  decodeEnv: WORKER,
  prefillEnv: WORKER,
  routerEnv: { BUSBAR_DISAGGREGATION: 'always' },
};

const sumOf = async (cluster: Cluster, name: string, labels = ''): Promise<number> => {
  const role = name.split('_')[1];
  const members = cluster.members.filter(
    (member) => member.role === role && member.process.exit === undefined,
  );
  const values = members.map((member) => cluster.metric(member, name, labels));
  return (await Promise.all(values)).reduce((sum, value) => sum + value, 0);
};

/** A cluster in which a prefill worker has been found and can be chosen. */
async function startSplit(options: ClusterOptions = SPLIT): Promise<Cluster> {
  const cluster = await Cluster.start(options);
  try {
    await waitFor(
      async () => {
        const before = await sumOf(cluster, 'busbar_decode_kv_fetches_total');
        await cluster.chat('are you there', { max_tokens: 1 });
        return (await sumOf(cluster, 'busbar_decode_kv_fetches_total')) > before;
      },
      15_000,
      'the first split request',
    );
    return cluster;
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}

/** Nothing may stay behind: no KV that waits, no booking, no running request. */
async function waitForNothingLeft(cluster: Cluster, timeoutMs = 5_000): Promise<void> {
  const names = [
    'busbar_prefill_staged_blocks',
    'busbar_prefill_staged_requests',
    'busbar_prefill_running_requests',
    'busbar_decode_running_requests',
    'busbar_decode_waiting_requests',
    'busbar_router_booked_requests',
  ];
  await waitFor(
    async () => {
      for (const name of names) if ((await sumOf(cluster, name)) !== 0) return false;
      return true;
    },
    timeoutMs,
    'nothing to be left',
  );
}

const assertWhole = (chat: ChatResult, outputTokens: number): void => {
  assert.equal(chat.error, undefined);
  assert.equal(chat.finish, 'length');
  assert.equal(chat.usage?.completion_tokens, outputTokens);
  assert.ok(chat.done);
};

test('a split request gives the text of a whole one, counts its prompt once, and its cached tokens are those of the prefill', async () => {
  const prompts = Array.from({ length: 6 }, (_, i) => words(150 + 60 * i, i));
  const extra = (i: number): object => ({ max_tokens: 20, seed: i, temperature: 1 });
  let whole: ChatResult[];
  {
    await using cluster = await Cluster.start({
      decode: 1,
      decodeEnv: WORKER,
      routerEnv: { BUSBAR_DISAGGREGATION: 'never' },
    });
    whole = await Promise.all(prompts.map((prompt, i) => cluster.chat(prompt, extra(i))));
  }
  await using cluster = await startSplit();
  const fetchedBefore = await sumOf(cluster, 'busbar_decode_kv_fetches_total', 'outcome="ok"');
  const split = await Promise.all(prompts.map((prompt, i) => cluster.chat(prompt, extra(i))));
  for (const [i, chat] of split.entries()) {
    assertWhole(chat, 20);
    assert.equal(chat.text, whole[i]?.text);
    assert.equal(chat.usage?.prompt_tokens, whole[i]?.usage?.prompt_tokens);
    assert.ok((chat.usage?.prompt_tokens_details.cached_tokens ?? 99) < 32, 'a cold prompt');
  }
  const fetched = await sumOf(cluster, 'busbar_decode_kv_fetches_total', 'outcome="ok"');
  assert.equal(fetched - fetchedBefore, prompts.length, 'one transfer for each request');
  const again = await cluster.chat(prompts[5]!, extra(5));
  assert.equal(again.text, whole[5]?.text);
  const { prompt_tokens: tokens, prompt_tokens_details: details } = again.usage!;
  assert.ok(details.cached_tokens > tokens * 0.8, `${details.cached_tokens} of ${tokens}`);
  assert.ok(details.cached_tokens < tokens, 'what arrived by transfer is no cache hit');
  await waitForNothingLeft(cluster);
});

test('requests that end in the middle leave neither KV nor bookings behind', async () => {
  await using cluster = await startSplit();
  const chats = Array.from({ length: 40 }, async (_, i) => {
    const abort = AbortSignal.timeout(5 + i * 12);
    const init = { headers: { 'content-type': 'application/json' }, signal: abort };
    try {
      await cluster.chat(words(300 + 20 * i, 500 + i), { max_tokens: 40 }, init);
      return 'whole';
    } catch {
      return 'aborted';
    }
  });
  const ends = await Promise.all(chats);
  assert.ok(ends.filter((end) => end === 'aborted').length > 10, ends.join());
  await waitForNothingLeft(cluster);
  assertWhole(await cluster.chat('after all that', { max_tokens: 3 }), 3);
});

test('a prefill worker killed under load: decode workers prefill themselves, nobody notices', async () => {
  await using cluster = await startSplit();
  const [prefill] = cluster.ofRole('prefill');
  assert.ok(prefill);
  const running = Array.from({ length: 24 }, (_, i) =>
    cluster.chat(words(500, 1_000 + i), { max_tokens: 10 }),
  );
  await waitForSome(cluster, prefill, 'busbar_prefill_running_requests');
  await prefill.process.kill();
  for (const chat of await Promise.all(running)) assertWhole(chat, 10);
  assertWhole(await cluster.chat(words(300, 77), { max_tokens: 5 }), 5);
  await waitForNothingLeft(cluster);
  const returned = await cluster.add('prefill');
  await waitFor(
    async () => {
      await cluster.chat('is it back', { max_tokens: 1 });
      return (await cluster.metric(returned, 'busbar_prefill_staged_ends_total')) > 0;
    },
    15_000,
    'split requests with the new prefill worker',
  );
});

test('a decode worker killed under load: what had no token is served by the other, KV that nobody fetches is freed', async () => {
  await using cluster = await startSplit();
  const running = Array.from({ length: 24 }, (_, i) =>
    cluster.chat(words(400, 2_000 + i), { max_tokens: 30 }),
  );
  // One pair may be faster than the other, and then most requests go there.
  const victim = await busyDecoder(cluster);
  await victim.process.kill();
  for (const chat of await Promise.all(running)) {
    if (chat.error === undefined) assertWhole(chat, 30);
    else assert.ok(chat.text.length > 0, `only started streams may fail: ${chat.error.message}`);
  }
  assertWhole(await cluster.chat(words(300, 78), { max_tokens: 5 }), 5);
  await waitForNothingLeft(cluster, 10_000);
});

async function busyDecoder(cluster: Cluster): Promise<Member> {
  let found: Member | undefined;
  const look = async (): Promise<boolean> => {
    for (const member of cluster.ofRole('decode')) {
      if ((await cluster.metric(member, 'busbar_decode_running_requests')) >= 2) found = member;
    }
    return found !== undefined;
  };
  await waitFor(look, 10_000, 'a decode worker with two requests');
  assert.ok(found);
  return found;
}

async function waitForSome(cluster: Cluster, member: Member, name: string): Promise<void> {
  await waitFor(async () => (await cluster.metric(member, name)) >= 2, 10_000, name);
}
