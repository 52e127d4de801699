import assert from 'node:assert/strict';
import { test } from 'node:test';
import { limit } from '@busbar/protocol';
import { waitFor } from '@busbar/testkit';
import { Cluster, type Member } from './cluster.ts';

test('a router of two that hangs delays what it was asked, fails nothing, and is asked again when it goes on', async () => {
  await using cluster = await Cluster.start({ decode: 2, routers: 2 });
  const [hung, other] = cluster.ofRole('router');
  const decisions = (router: Member): Promise<number> =>
    cluster.metric(router, 'busbar_router_decisions_total');
  const chats = (count: number): Promise<string[]> =>
    Promise.all(
      Array.from({ length: count }, async (_, i) => {
        const { error, finish } = await cluster.chat(`chat ${i}`, { max_tokens: 4 });
        return error?.message ?? finish ?? 'cut off';
      }),
    );
  const ended = (count: number): string[] => Array.from({ length: count }, () => 'length');
  await chats(8);
  assert.ok((await decisions(hung!)) > 0 && (await decisions(other!)) > 0);

  hung!.process.signal('SIGSTOP');
  const hungMs = performance.now();
  assert.deepEqual(await chats(20), ended(20));
  // Half of them were put to it, and it held a lease for a shorter time than they waited.
  assert.ok(performance.now() - hungMs > limit('routeTimeoutMs'));
  assert.ok(limit('routeTimeoutMs') > limit('leaseTtlMs') + 1_000);
  const beganMs = performance.now();
  assert.deepEqual(await chats(20), ended(20));
  const tookMs = performance.now() - beganMs;
  assert.ok(tookMs < limit('routeTimeoutMs'), `nobody waits for it any more: ${tookMs} ms`);

  hung!.process.signal('SIGCONT');
  const before = await decisions(hung!);
  await waitFor(
    async () => {
      assert.deepEqual(await chats(4), ended(4));
      return (await decisions(hung!)) > before + 20;
    },
    20_000,
    'it to decide again',
  );
  for (const router of [hung!, other!]) {
    await waitFor(
      async () => (await cluster.metric(router, 'busbar_router_booked_requests')) === 0,
      10_000,
      'late decisions to be given back',
    );
  }
});
