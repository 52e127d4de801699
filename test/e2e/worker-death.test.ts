import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@busbar/testkit';
import { Cluster, words } from './cluster.ts';

test('a worker killed under load: what had no token succeeds elsewhere, what had ends with one error frame', async () => {
  await using cluster = await Cluster.start({
    decode: 2,
    decodeEnv: { BUSBAR_PROFILE: 'seed-8gb', BUSBAR_MODEL: 'm', BUSBAR_KV_BLOCKS: '8000' },
  });
  const victim = cluster.ofRole('decode')[0]!;
  const running = Array.from({ length: 64 }, (_, i) =>
    cluster.chat(words(120, i), { max_tokens: 60, ignore_eos: true }),
  );
  await waitFor(
    async () => (await cluster.metric(victim, 'busbar_decode_running_requests')) >= 8,
    10_000,
    'load on the victim',
  );
  const fresh = Array.from({ length: 24 }, (_, i) =>
    cluster.chat(words(400, 100 + i), { max_tokens: 8 }),
  );
  await victim.process.kill();
  const results = await Promise.all([...running, ...fresh]);
  let failed = 0;
  for (const chat of results) {
    if (chat.error === undefined) {
      assert.ok(chat.done);
      assert.equal(chat.finish, 'length');
      continue;
    }
    failed++;
    // A refusal before the first token would be a status; an error frame says that text had been sent.
    assert.equal(chat.status, 200, chat.error.message);
    assert.ok(chat.text.length > 0, 'only started streams may fail');
    assert.ok(chat.done, '[DONE] follows the error frame');
  }
  assert.ok(failed < results.length / 2 + 8, `${failed} of ${results.length} failed`);
  const after = await cluster.chat('after', { max_tokens: 3 });
  assert.equal(after.finish, 'length');
  await waitFor(
    async () =>
      (await cluster.metric(cluster.ofRole('router')[0]!, 'busbar_router_booked_requests')) === 0,
    5000,
    'bookings back to 0',
  );
});

test('all workers gone: 503 with a reason for a known model, and service again when one returns', async () => {
  await using cluster = await Cluster.start({
    decode: 1,
    decodeEnv: { BUSBAR_PROFILE: 'instant', BUSBAR_MODEL: 'Qwen/Qwen3-0.6B 模型 x:8b' },
  });
  const model = 'Qwen/Qwen3-0.6B 模型 x:8b';
  assert.equal((await cluster.chat('hi', { model, max_tokens: 2 })).finish, 'length');
  await cluster.ofRole('decode')[0]!.process.kill();
  // Too much load would be 429: the very first answer must not take a dead fleet for that.
  const lost = await cluster.chat('hi', { model, max_tokens: 2 });
  assert.equal(lost.status, 503, JSON.stringify(lost.error));
  assert.ok(lost.error && lost.error.message.length > 10);
  assert.equal((await cluster.chat('hi', { model: 'never', max_tokens: 2 })).status, 404);
  await waitFor(
    async () => (await fetch(`${cluster.url()}/ready`)).status === 503,
    8000,
    'unready',
  );
  await cluster.add('decode');
  await cluster.waitReady();
  assert.equal((await cluster.chat('hi', { model, max_tokens: 2 })).finish, 'length');
});

test('from the first listing on every chat is answered', async () => {
  await using cluster = await Cluster.start({
    decode: 0,
    frontends: 0,
    decodeEnv: { BUSBAR_PROFILE: 'instant', BUSBAR_MODEL: 'm' },
  });
  await cluster.add('frontend');
  const listed = async (): Promise<boolean> => {
    const { data } = (await (await fetch(`${cluster.url()}/v1/models`)).json()) as {
      data: { id: string }[];
    };
    return data.some((model) => model.id === 'm');
  };
  assert.equal(await listed(), false);
  const joining = cluster.add('decode');
  await waitFor(listed, 15_000, 'model to be listed');
  for (let i = 0; i < 20; i++)
    assert.equal((await cluster.chat('hi', { max_tokens: 1 })).status, 200);
  await joining;
});
