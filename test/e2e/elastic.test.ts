import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { waitFor } from '@busbar/testkit';
import { Cluster, words } from './cluster.ts';

const done = new AbortController();
after(() => done.abort());

test('routers, frontends and workers join and leave under load without a failed request', async () => {
  await using cluster = await Cluster.start({
    decode: 2,
    routers: 2,
    frontends: 2,
    decodeEnv: { BUSBAR_PROFILE: 'seed-8gb', BUSBAR_MODEL: 'm', BUSBAR_KV_BLOCKS: '4000' },
  });
  let completed = 0;
  const failures: string[] = [];
  const run = async (lane: number): Promise<void> => {
    for (let i = 0; !done.signal.aborted; i++) {
      const chat = await cluster
        .chat(words(80, i % 2 === 0 ? lane : lane * 1000 + i), { max_tokens: 10 }, {}, lane % 2)
        .catch((error: unknown) => String(error));
      if (typeof chat !== 'string' && chat.error === undefined && chat.finish === 'length')
        completed++;
      else if (!done.signal.aborted) failures.push(JSON.stringify(chat));
    }
  };
  const lanes = Array.from({ length: 12 }, (_lane, i) => run(i));
  await waitFor(() => completed > 20, 15_000, 'load');
  const worker = await cluster.add('decode');
  await waitFor(
    async () => (await cluster.metric(worker, 'busbar_decode_requests_total')) > 0,
    10_000,
    'the new worker to be used',
  );
  const router = await cluster.add('router');
  await cluster.ofRole('router')[0]!.process.stop(10_000);
  await cluster.ofRole('decode')[0]!.process.stop(20_000);
  await waitFor(
    async () => (await cluster.metric(router, 'busbar_router_decisions_total')) > 0,
    10_000,
    'the new router to be used',
  );
  const before = completed;
  await waitFor(() => completed > before + 20, 15_000, 'more answers');
  done.abort();
  await Promise.all(lanes);
  assert.deepEqual(failures, []);
});
