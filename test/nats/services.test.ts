import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { limit } from '@busbar/protocol';
import {
  freePort,
  type ManagedProcess,
  type NatsServer,
  spawnProcess,
  startNatsServer,
  waitFor,
} from '@busbar/testkit';
import { ProtocolClient } from './protocol-client.ts';

const SERVICES = join(import.meta.dirname, '../../services');
const MODEL = 'busbar-mock';

interface Member {
  process: ManagedProcess;
  adminUrl: string;
}

async function start(
  role: 'router' | 'decode',
  url: string,
  id: string,
  env: Record<string, string> = {},
): Promise<Member> {
  const port = await freePort();
  const member = {
    process: spawnProcess(process.execPath, {
      args: [join(SERVICES, role, 'src/main.ts')],
      env: { BUSBAR_NATS_URL: url, BUSBAR_ID: id, BUSBAR_ADMIN_PORT: `${port}`, ...env },
    }),
    adminUrl: `http://127.0.0.1:${port}`,
  };
  await waitFor(() => isReady(member), 20_000, `${id} to be ready`);
  return member;
}

async function isReady({ adminUrl }: Member): Promise<boolean> {
  return (await fetch(`${adminUrl}/ready`)).ok;
}

interface View {
  workerId: string;
  truth: string;
  isAvailable: boolean;
  indexedBlocks: number;
}

async function viewsOf(router: Member): Promise<View[]> {
  return (await (await fetch(`${router.adminUrl}/workers`)).json()) as View[];
}

async function waitRoutable(router: Member, ids: string[]): Promise<void> {
  await waitFor(
    async () => {
      const views = await viewsOf(router);
      return ids.every((id) => views.some((view) => view.workerId === id && view.isAvailable));
    },
    10_000,
    `${ids.join(', ')} to be routable`,
  );
}

function prompt(length: number, salt: number): Uint32Array {
  return Uint32Array.from({ length }, (_, at) => 10 + ((at * 7 + salt * 131) % 997));
}

describe('a process that cannot start says why in a sentence', () => {
  const run = async (
    env: Record<string, string>,
  ): Promise<{ exit: number | string; output: string }> => {
    const child = spawnProcess(process.execPath, {
      args: [join(SERVICES, 'router/src/main.ts')],
      env,
    });
    const exit = await child.exited;
    return { exit, output: child.output };
  };

  test('wrong configuration: exit 2, every problem', async () => {
    const { exit, output } = await run({ BUSBAR_POLICI: 'kv', BUSBAR_DRAIN_MS: '-1' });
    assert.equal(exit, 2);
    assert.match(output, /BUSBAR_POLICI is not known; did you mean BUSBAR_POLICY\?/);
    assert.match(output, /BUSBAR_DRAIN_MS must be at least 0, not "-1"\./);
    assert.doesNotMatch(output, /\bat .*\.ts:/);
  });

  test('nobody at BUSBAR_NATS_URL, no JetStream, admin port in use', async () => {
    const port = await freePort();
    const missing = await run({ BUSBAR_NATS_URL: `nats://127.0.0.1:${port}` });
    assert.equal(missing.exit, 1);
    assert.match(missing.output, /NATS is not ready; trying again/);
    assert.match(missing.output, new RegExp(`router: No NATS server answers at .*:${port}`));

    const plain = await startNatsServer({ jetStream: false });
    const blocker = createServer();
    try {
      const noJetStream = await run({ BUSBAR_NATS_URL: plain.url });
      assert.equal(noJetStream.exit, 1);
      assert.match(noJetStream.output, /router: .*without JetStream/);
    } finally {
      await plain.stop();
    }
    const nats = await startNatsServer();
    try {
      const taken = await freePort();
      await new Promise<void>((resolve) => blocker.listen(taken, '127.0.0.1', resolve));
      const inUse = await run({ BUSBAR_NATS_URL: nats.url, BUSBAR_ADMIN_PORT: `${taken}` });
      assert.equal(inUse.exit, 1);
      assert.match(inUse.output, new RegExp(`router: Admin port ${taken} .* is in use`));
      const first = await start('router', nats.url, 'same-id');
      const second = await run({ BUSBAR_NATS_URL: nats.url, BUSBAR_ID: 'same-id' });
      assert.equal(second.exit, 1);
      assert.match(second.output, /A router with the id "same-id" runs already/);
      assert.equal(await first.process.stop(), 0);
    } finally {
      blocker.close();
      await nats.stop();
    }
  });
});

describe('workers and routers on NATS', () => {
  let nats: NatsServer;
  const members: Member[] = [];
  let client: ProtocolClient;

  before(async () => {
    nats = await startNatsServer();
    const [r1, r2, w1, w2] = await Promise.all([
      start('router', nats.url, 'r1'),
      start('router', nats.url, 'r2'),
      start('decode', nats.url, 'w1'),
      start('decode', nats.url, 'w2'),
    ]);
    members.push(r1, r2, w1, w2);
    client = await ProtocolClient.connect(nats.url, { id: 'frontend-main' });
    await waitRoutable(r1, ['w1', 'w2']);
    await waitRoutable(r2, ['w1', 'w2']);
  });

  after(async () => {
    await client.close();
    await Promise.all(members.map((member) => member.process.kill()));
    await nats.stop();
  });

  test('repeated prompts find their cache, whichever router answers', async () => {
    let hits = 0;
    // An answer reaches its client before the KV events behind it reach the router that did not place it; and a worker whose
    // process had to wait for a processor is not chosen until its next heartbeat.
    const isCalm = async (blocks: number): Promise<boolean> => {
      const [one, other] = await Promise.all(members.slice(0, 2).map(viewsOf));
      const known = one!.map((view) => view.indexedBlocks);
      const isSame = other!.every((view, at) => view.indexedBlocks === known[at]);
      const isThere = [...one!, ...other!].every((view) => view.isAvailable);
      return isSame && isThere && known.reduce((sum, count) => sum + count) >= blocks;
    };
    for (let request = 0; request < 24; request++) {
      const outcome = await client.chat(MODEL, prompt(1_200, request % 6), 4);
      assert.ok(outcome.kind === 'answer', JSON.stringify(outcome));
      assert.equal(outcome.answer.isBroken, false);
      assert.equal(outcome.answer.finish, 'length');
      if ((outcome.answer.cachedTokens ?? 0) >= 1_184) hits++;
      const blocks = 75 * Math.min(6, request + 1);
      await waitFor(() => isCalm(blocks), 10_000, 'both routers to know all blocks and workers');
    }
    assert.equal(hits, 18);
    assert.equal(client.lostBatches, 0);
    const views = [await viewsOf(members[0]!), await viewsOf(members[1]!)];
    assert.ok(views.flat().every((view) => view.truth === 'events'));
  });

  test('cancel ends a stream within 500 ms', async () => {
    const { answer } = await client.work('w1', MODEL, prompt(100, 50), { maxTokens: 2_000 });
    await waitFor(() => answer.tokens.length > 2, 5_000, 'tokens');
    const beganMs = performance.now();
    client.cancel('w1', [answer.streamId]);
    assert.equal(await client.finished(answer), 'cancelled');
    assert.ok(performance.now() - beganMs < 500);
  });

  test('the streams of a frontend that vanished end, its neighbours go on', async () => {
    const other = await ProtocolClient.connect(nats.url, { id: 'frontend-other' });
    await other.work('w2', MODEL, prompt(100, 51), { maxTokens: 10_000 });
    const { answer } = await client.work('w2', MODEL, prompt(100, 52), { maxTokens: 400 });
    await other.close();
    const load = async (): Promise<string> =>
      (await fetch(`${members[3]!.adminUrl}/metrics`)).text();
    await waitFor(
      async () => /requests_total\{outcome="cancelled",[^}]*\} 1/.test(await load()),
      6_000,
      'the orphan to end',
    );
    assert.equal(await client.finished(answer), 'length');
  });

  test('NATS killed and restarted: all are ready within 5 s, nothing is forgotten, no process restarts', async () => {
    const known = await viewsOf(members[0]!);
    const pids = members.map((member) => member.process.pid);
    const { answer: underWay } = await client.work('w1', MODEL, prompt(100, 53), {
      maxTokens: 200,
    });
    await nats.kill();
    await waitFor(async () => !(await isReady(members[2]!)), 5_000, 'w1 to notice');
    await sleep(1_000);
    await nats.restart();
    const beganMs = performance.now();
    for (const member of members) await waitFor(() => isReady(member), 5_000, 'all to be ready');
    await waitRoutable(members[0]!, ['w1', 'w2']);
    await waitRoutable(members[1]!, ['w1', 'w2']);
    assert.ok(performance.now() - beganMs < 5_000, `${performance.now() - beganMs} ms`);
    assert.deepEqual(
      members.map((member) => member.process.pid),
      pids,
    );
    await waitFor(() => client.bus.status === 'connected', 5_000, 'the test itself to be back');
    const outcome = await client.chat(MODEL, prompt(1_200, 0), 4);
    assert.ok(outcome.kind === 'answer', JSON.stringify(outcome));
    assert.ok((outcome.answer.cachedTokens ?? 0) >= 1_184, JSON.stringify(outcome));
    assert.equal(await client.finished(underWay), 'length');
    assert.deepEqual(
      (await viewsOf(members[0]!)).map((view) => view.workerId),
      known.map((view) => view.workerId),
    );
  });

  test('a worker that is told to stop takes nothing new and finishes what runs', async () => {
    const w3 = await start('decode', nats.url, 'w3');
    await waitRoutable(members[0]!, ['w3']);
    const running = await Promise.all(
      Array.from({ length: 6 }, (_, salt) =>
        client.work('w3', MODEL, prompt(100, 60 + salt), { maxTokens: 150 }),
      ),
    );
    w3.process.signal('SIGTERM');
    await sleep(150);
    const refused = await client.work('w3', MODEL, prompt(100, 70));
    assert.equal(refused.ack.kind === 'refused' && refused.ack.code, 'WORKER_DRAINING');
    for (let i = 0; i < 10; i++) {
      const reply = await client.place(MODEL, prompt(100, 60 + i));
      assert.ok(reply.kind === 'place' && reply.workerId !== 'w3');
    }
    for (const { answer } of running) {
      assert.equal(await client.finished(answer), 'length');
      assert.equal(answer.tokens.length, 150);
    }
    assert.equal(await w3.process.exited, 0);
  });

  test('a worker killed under load is not chosen any more, and may come back under its name', async () => {
    const [router, other, , w2] = members;
    await w2!.process.kill();
    for (const each of [router, other]) {
      await waitFor(
        async () =>
          (await viewsOf(each!)).some((view) => view.workerId === 'w2' && !view.isAvailable),
        // A second for the machine, which may be slow to end the process and to answer.
        limit('loadSilenceMs') + 1_000,
        'the silence of w2 to be noticed',
      );
    }
    for (let salt = 0; salt < 6; salt++) {
      const outcome = await client.chat(MODEL, prompt(400, salt), 4);
      assert.ok(outcome.kind === 'answer' && outcome.placement.workerId === 'w1');
    }
    members[3] = await start('decode', nats.url, 'w2');
    await waitRoutable(router!, ['w2']);
    const view = (await viewsOf(router!)).find(({ workerId }) => workerId === 'w2');
    assert.equal(view?.indexedBlocks, 0);
  });
});

describe('sizes beyond one message', () => {
  test('a prompt of 300,000 tokens goes in pieces, its KV events and snapshot too; neighbours are not disturbed', async () => {
    const nats = await startNatsServer();
    const members: Member[] = [];
    try {
      const env = {
        BUSBAR_KV_BLOCKS: '150000',
        BUSBAR_BLOCK_SIZE: '2',
        BUSBAR_CONTEXT_TOKENS: '310000',
        BUSBAR_PROFILE: 'instant',
      };
      members.push(await start('decode', nats.url, 'w1', { ...env, BUSBAR_KV_BLOCKS: '160000' }));
      const client = await ProtocolClient.connect(nats.url, { blockSize: 2 });
      const neighbour = await client.work('w1', MODEL, prompt(50, 1), { maxTokens: 300 });
      const tokens = Uint32Array.from({ length: 300_000 }, (_, at) => (at * 2_654_435_761) >>> 15);
      const parts = 2;
      const half = tokens.length / parts;
      let last: Awaited<ReturnType<ProtocolClient['work']>> | undefined;
      for (let part = 0; part < parts; part++) {
        last = await client.work('w1', MODEL, tokens.subarray(part * half, (part + 1) * half), {
          streamId: 77,
          promptTokens: tokens.length,
          part,
          parts,
          maxTokens: 4,
        });
        assert.equal(last.ack.kind, 'accepted');
      }
      const answer = client.answers.get(77)!;
      assert.equal(await client.finished(answer, 20_000), 'length');
      assert.equal(answer.tokens.length, 4);
      assert.equal(await client.finished(neighbour.answer), 'length');
      members.push(await start('router', nats.url, 'r1'));
      const views = await viewsOf(members[1]!);
      assert.ok((views[0]?.indexedBlocks ?? 0) >= 150_000, JSON.stringify(views));
      await client.close();
    } finally {
      await Promise.all(members.map((member) => member.process.kill()));
      await nats.stop();
    }
  });
});
