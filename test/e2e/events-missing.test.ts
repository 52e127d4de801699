import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connectNats } from '@busbar/bus';
import { createSubjects } from '@busbar/protocol';
import { waitFor } from '@busbar/testkit';
import { Cluster, words } from './cluster.ts';

test('without KV events the router says so everywhere within 10 s and still finds prefixes by its own account', async () => {
  await using cluster = await Cluster.start({
    decode: 2,
    decodeEnv: { BUSBAR_PROFILE: 'seed-8gb', BUSBAR_MODEL: 'm', BUSBAR_KV_EVENTS: 'false' },
  });
  const bus = await connectNats({ url: cluster.nats.url, name: 'listener' });
  const demoted: string[] = [];
  bus.subscribe(createSubjects('e2e').event('router.demoted'), (message) => {
    demoted.push(new TextDecoder().decode(message.data));
  });
  try {
    const first = await cluster.chat(words(300, 1), { max_tokens: 2 });
    assert.equal(first.finish, 'length');
    await waitFor(
      async () => {
        const ready = (await (await fetch(`${cluster.url()}/ready`)).json()) as { status: string };
        return ready.status === 'degraded' && JSON.stringify(ready).includes('KV events');
      },
      10_000,
      '/ready to say why it is degraded',
    );
    const router = cluster.ofRole('router')[0]!;
    await waitFor(
      async () => (await cluster.metric(router, 'busbar_router_demotions_total')) >= 1,
      10_000,
      'metric',
    );
    await waitFor(() => demoted.length > 0, 10_000, 'event.router.demoted');
    const again = await cluster.chat(`${words(300, 1)} and a new end`, { max_tokens: 2 });
    assert.ok(
      again.usage &&
        again.usage.prompt_tokens_details.cached_tokens > again.usage.prompt_tokens / 2,
    );
  } finally {
    await bus.close();
  }
});
