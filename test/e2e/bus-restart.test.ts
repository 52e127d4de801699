import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { waitFor } from '@busbar/testkit';
import { Cluster, words } from './cluster.ts';

test('nats-server killed and restarted under load: nothing hangs, everything serves again within 5 s', async () => {
  await using cluster = await Cluster.start({
    decode: 2,
    routers: 2,
    frontends: 1,
    decodeEnv: { BUSBAR_PROFILE: 'seed-8gb', BUSBAR_MODEL: 'm', BUSBAR_KV_BLOCKS: '8000' },
  });
  const running = Array.from({ length: 24 }, (_, i) =>
    cluster.chat(
      words(60, i),
      { max_tokens: 200, ignore_eos: true },
      { signal: AbortSignal.timeout(30_000) },
    ),
  );
  // The second worker may come to the router when all requests are with the first.
  const runs = async (): Promise<boolean> => {
    const name = 'busbar_decode_running_requests';
    const counts = cluster.ofRole('decode').map((member) => cluster.metric(member, name));
    return (await Promise.all(counts)).some((count) => count > 4);
  };
  await waitFor(runs, 10_000, 'load');
  await cluster.nats.kill();
  await sleep(1_000);
  const refused = await cluster.chat(
    'during the outage',
    { max_tokens: 2 },
    { signal: AbortSignal.timeout(15_000) },
  );
  assert.equal(refused.status, 503);
  await cluster.nats.restart();
  const restarted = performance.now();
  await waitFor(
    async () =>
      (await cluster.chat('again', { max_tokens: 2 }, { signal: AbortSignal.timeout(10_000) }))
        .finish === 'length',
    15_000,
    'service after the restart',
  );
  const tookMs = performance.now() - restarted;
  assert.ok(tookMs < 5000, `${tookMs.toFixed(0)} ms`);
  const ended = await Promise.all(running);
  for (const chat of ended) assert.ok(chat.done || chat.error !== undefined, 'each request ends');
  await Promise.all(
    cluster.members.map((member) =>
      waitFor(
        async () => (await fetch(`${member.adminUrl}/ready`)).ok,
        5000,
        `${member.id} to be ready again`,
      ),
    ),
  );
  for (const member of cluster.members)
    assert.equal(member.process.exit, undefined, `${member.id} was not restarted`);
});
