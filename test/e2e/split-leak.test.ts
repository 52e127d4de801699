import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { limit } from '@busbar/protocol';
import { waitFor } from '@busbar/testkit';
import { Cluster, type Member, type Role, words } from './cluster.ts';
import { type LoadEnds, runSplitLoad } from './split-load.ts';

/** Some megabytes a prompt: enough that clients leave in the middle of a transfer, few enough for a small machine. */
const WORKER = {
  BUSBAR_PROFILE: 'seed-8gb',
  BUSBAR_KV_BLOCKS: '4000',
  BUSBAR_KV_BYTES_PER_TOKEN: '8192',
};
const ENGINE_GAUGES = [
  'running_requests',
  'waiting_requests',
  'waiting_prefill_tokens',
  'active_blocks',
] as const;
/** What must be 0 when nothing is asked for, by role. */
const GAUGES: Readonly<Record<Role, readonly string[]>> = {
  prefill: [...ENGINE_GAUGES, 'staged_blocks', 'staged_requests'],
  decode: ENGINE_GAUGES,
  router: ['booked_requests', 'booked_prefill_tokens', 'link_booked_bytes'],
  frontend: ['in_flight', 'streams'],
};
const ROLES = ['prefill', 'decode', 'router', 'frontend'] as const;
/** After the end of the last request. */
const RELEASE_MS = 1_000;
/** After the end of the last request, when messages were lost: what was said is said again so long after the return of the bus. */
const RECONCILE_MS = 5_000 + RELEASE_MS;
/** A process that was killed is known to be dead when its lease and the grace behind it are over. */
const LEASE_MS = limit('leaseTtlMs') + limit('leaseGraceMs');

/** Gauges that are not 0, as text; empty when nothing is left. One look at each process. */
async function leftovers(cluster: Cluster, roles: readonly Role[] = ROLES): Promise<string> {
  const live = roles.flatMap((role) => cluster.ofRole(role));
  const texts = await Promise.all(
    live.map(async (member) => ({ member, text: await metricsOf(member) })),
  );
  return texts.flatMap(({ member, text }) => nonZero(member, text)).join(', ');
}

const metricsOf = async ({ adminUrl }: Member): Promise<string> =>
  (await fetch(`${adminUrl}/metrics`)).text();

function nonZero({ role, id }: Member, text: string): string[] {
  const found: string[] = [];
  for (const gauge of GAUGES[role]) {
    const name = `busbar_${role}_${gauge}`;
    assert.ok(text.includes(`# TYPE ${name} `), `${id} has no metric ${name}`);
    for (const line of text.split('\n')) {
      if (!line.startsWith(`${name}{`) && !line.startsWith(`${name} `)) continue;
      if (Number(line.slice(line.lastIndexOf(' ') + 1)) !== 0) found.push(`${id} ${line}`);
    }
  }
  return found;
}

/** Nothing is left within `limitMs`, and the time that the look took which found so. */
async function assertNothingLeft(
  t: TestContext,
  cluster: Cluster,
  what: string,
  limitMs = RELEASE_MS,
  roles: readonly Role[] = ROLES,
): Promise<void> {
  const beganMs = performance.now();
  for (;;) {
    const lookedMs = performance.now();
    const left = await leftovers(cluster, roles);
    const tookMs = performance.now() - beganMs;
    if (left === '') {
      t.diagnostic(`${what}: nothing left after ${tookMs.toFixed(0)} ms`);
      return;
    }
    assert.ok(lookedMs - beganMs <= limitMs, `${what}: after ${tookMs.toFixed(0)} ms ${left}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

const inWords = ({ whole, left, failed }: LoadEnds): string =>
  `${whole} whole, ${left} left, ${JSON.stringify(Object.fromEntries(failed))}`;

/** One more worker, whose engine runs when this resolves. */
async function addWorker(cluster: Cluster, role: 'decode' | 'prefill'): Promise<void> {
  const member = await cluster.add(role);
  const isThere = (): Promise<boolean> =>
    cluster.metric(member, `busbar_${role}_running_requests`).then(() => true);
  await waitFor(isThere, 20_000, `the engine of ${member.id}`);
}

/** The sum over the processes of a role. */
async function sum(cluster: Cluster, role: Role, name: string, labels = ''): Promise<number> {
  const values = cluster
    .ofRole(role)
    .map((member) => cluster.metric(member, `busbar_${role}_${name}`, labels));
  return (await Promise.all(values)).reduce((total, value) => total + value, 0);
}

async function startSplit(): Promise<Cluster> {
  const cluster = await Cluster.start({
    prefill: 2,
    decode: 2,
    decodeEnv: { ...WORKER, BUSBAR_MOCK_SPEED: '3' },
    prefillEnv: { ...WORKER, BUSBAR_MOCK_SPEED: '2' },
    routerEnv: { BUSBAR_DISAGGREGATION: 'always' },
  });
  await waitFor(
    async () => {
      await cluster.chat('are you there', { max_tokens: 1 });
      return (await sum(cluster, 'decode', 'kv_fetches_total')) > 0;
    },
    15_000,
    'the first split request',
  );
  return cluster;
}

/**
 * Ends a decode worker by SIGTERM while requests are still to come to it whose prompts are being computed: it answers a few others
 * until then, and refuses these. All must be answered. Resolves with the worker.
 */
async function drainUnderLoad(cluster: Cluster): Promise<Member> {
  const [router] = cluster.ofRole('router');
  assert.ok(router);
  const present = async (decode: Member): Promise<number> =>
    (await cluster.metric(decode, 'busbar_decode_running_requests')) +
    (await cluster.metric(decode, 'busbar_decode_waiting_requests'));
  const find = async (toCome: number): Promise<Member | undefined> => {
    for (const decode of cluster.ofRole('decode')) {
      const name = 'busbar_router_booked_requests';
      const booked = await cluster.metric(router, name, `"${decode.id}"`);
      const here = await present(decode);
      if (here > 0 && booked - here >= toCome) return decode;
    }
    return undefined;
  };
  const long = Array.from({ length: 8 }, (_, i) =>
    cluster.chat(words(50, 900 + i), { max_tokens: 800, ignore_eos: true }),
  );
  await waitFor(() => find(0), 10_000, 'a stream that runs');
  const late = Array.from({ length: 16 }, (_, i) =>
    cluster.chat(words(1_500, 950 + i), { max_tokens: 4 }),
  );
  const decode = await waitFor(() => find(4), 10_000, 'requests that are still to come');
  decode.process.signal('SIGTERM');
  for (const { error, done } of await Promise.all([...long, ...late])) {
    assert.equal(error, undefined);
    assert.ok(done);
  }
  return decode;
}

/** What became of the clients that left, by what the workers counted. */
async function assertLeftInEveryStage(t: TestContext, cluster: Cluster): Promise<void> {
  const fetchesLeft = await sum(cluster, 'decode', 'kv_fetches_total', 'outcome="cancelled"');
  const decodesLeft = await sum(cluster, 'decode', 'requests_total', 'outcome="cancelled"');
  const stages = {
    'during the prefill': await sum(cluster, 'prefill', 'requests_total', 'outcome="cancelled"'),
    'with KV that waits': await sum(cluster, 'prefill', 'staged_ends_total', 'how="released"'),
    'during the fetch': fetchesLeft,
    'while it decodes': decodesLeft - fetchesLeft,
    'not at all': await sum(cluster, 'prefill', 'staged_ends_total', 'how="fetched"'),
  };
  t.diagnostic(`clients left ${JSON.stringify(stages)}`);
  for (const [stage, count] of Object.entries(stages)) assert.ok(count > 0, stage);
}

test('1,000 split requests, left in every stage, refused, and with workers killed: all is given back', async (t) => {
  await using cluster = await startSplit();

  const calm = await runSplitLoad(cluster, { requests: 600, inFlight: 24, seed: 1 });
  await assertNothingLeft(t, cluster, `600 whose clients leave (${inWords(calm)})`);
  assert.deepEqual([...calm.failed], []);
  await assertLeftInEveryStage(t, cluster);

  const drained = await drainUnderLoad(cluster);
  await assertNothingLeft(t, cluster, '24 while a decode worker leaves');
  const refusals = await sum(cluster, 'frontend', 'retries_total', 'reason="WORKER_DRAINING"');
  const reuses = await sum(cluster, 'frontend', 'split_reuses_total');
  t.diagnostic(`${refusals} refused by it, the KV of ${reuses} fetched by the other one`);
  assert.ok(refusals > 0, 'the decode worker refused what was prefilled for it');
  assert.ok(reuses > 0, 'and the other one fetched that');
  await drained.process.exited;

  await addWorker(cluster, 'decode');
  const [prefill] = cluster.ofRole('prefill');
  const [decode] = cluster.ofRole('decode');
  assert.ok(prefill && decode);
  const killed = await runSplitLoad(cluster, {
    requests: 376,
    inFlight: 24,
    seed: 3,
    at: {
      40: () => prefill.process.kill(),
      100: () => addWorker(cluster, 'prefill'),
      180: () => decode.process.kill(),
      250: () => addWorker(cluster, 'decode'),
    },
  });
  await assertNothingLeft(t, cluster, `376 with workers killed (${inWords(killed)})`);
  // A stream that has begun cannot go on elsewhere.
  for (const code of killed.failed.keys()) assert.equal(code, 'worker_lost');
  assert.equal((await cluster.chat('after all that', { max_tokens: 3 })).error, undefined);
});

test('when messages were lost, all is given back when the bus is back, and what a killed frontend held with its lease', async (t) => {
  await using cluster = await startSplit();

  const cut = await runSplitLoad(cluster, {
    requests: 60,
    inFlight: 30,
    seed: 5,
    at: {
      15: async () => {
        await cluster.nats.kill();
        await cluster.nats.restart();
      },
    },
  });
  // Who holds what is said again when all are back, and what runs is asked for.
  await assertNothingLeft(t, cluster, `a restart of the bus (${inWords(cut)})`, RECONCILE_MS);

  const [frontend] = cluster.ofRole('frontend');
  assert.ok(frontend);
  const kill = { 15: () => frontend.process.kill() };
  await runSplitLoad(cluster, { requests: 60, inFlight: 30, seed: 4, at: kill });
  assert.notEqual(await leftovers(cluster), '', 'something ran');
  await assertNothingLeft(t, cluster, 'a killed frontend', LEASE_MS + RELEASE_MS);
});
