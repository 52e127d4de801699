import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  encodeLinkRecord,
  type LinkRecord,
  linkKey,
  PROTOCOL_VERSION,
  type TransferInfo,
} from '@busbar/protocol';
import { until } from '@busbar/service/testing';
import { type Bench, prompt, withBench } from './router.testing.ts';

const TRANSFER: TransferInfo = {
  protocol: 'tcp',
  revision: { engine: 'fake 1' },
  kvBytesPerToken: 1_000,
  endpoint: '127.0.0.1:7000',
};

const RECORD: LinkRecord = {
  protocol: PROTOCOL_VERSION,
  prefillWorkerId: 'p1',
  decodeWorkerId: 'd1',
  transferProtocol: 'tcp',
  transfers: 3,
  failures: 0,
  bytesTotal: 1e9,
  busyMsTotal: 1e3,
  bytesPerMs: 77_000,
  latencyMs: 2,
  source: 'transfers',
  updatedAt: '2026-01-01T00:00:00Z',
};

interface PairRow {
  prefillWorkerId: string;
  bytesPerMs: number;
  source: string;
  bookedBytes: number;
  refusal?: string;
}

async function linksOf({ bus, context }: Bench) {
  const bucket = await bus.bucket(context.buckets.links);
  return {
    put: (key: string, record: LinkRecord) => bucket.put(key, encodeLinkRecord(record)),
    drop: (key: string) => bucket.delete(key),
  };
}

test('a prefill worker joins, its link is followed, and a request goes to both', () =>
  withBench(async (bench) => {
    const { worker, router, place, life } = bench;
    const links = await linksOf(bench);
    await links.put(linkKey('p1', 'd1'), RECORD);
    await worker('d1').join({ transfer: TRANSFER });
    const { service, context } = await router({ BUSBAR_DISAGGREGATION: 'always' });
    const pairs = () => service.adminRoutes!['/links']!() as PairRow[];
    assert.deepEqual(pairs(), []);
    assert.match(
      String(service.checks().find(({ isDegraded }) => isDegraded)?.detail),
      /no prefill/,
    );
    const early = await place(prompt(160));
    assert.ok(early.kind === 'place' && early.prefill === undefined);
    await worker('p1').join({ role: 'prefill', transfer: TRANSFER });
    await until('the pair', () => pairs().length === 1);
    assert.equal(pairs()[0]!.bytesPerMs, 77_000);
    await until('both are ready', () =>
      service.checks().every(({ isDegraded }) => isDegraded !== true),
    );

    const reply = await place(prompt(320, 1));
    assert.ok(reply.kind === 'place' && reply.prefill !== undefined);
    assert.deepEqual([reply.workerId, reply.prefill.workerId], ['d1', 'p1']);
    assert.equal(pairs()[0]!.bookedBytes, 320_000);
    const { prefill, decisionId } = reply;
    const rest = { cachedTokens: 0, ttftMs: 5 };
    life({ kind: 'firstToken', decisionId: prefill.decisionId, workerId: 'p1', ...rest });
    life({ kind: 'firstToken', decisionId, workerId: 'd1', ...rest });
    await until('the arrival', () => pairs()[0]!.bookedBytes === 0);

    const metrics = await context.registry.metrics();
    assert.match(metrics, /splits_total\{kind="whole",cause="no_prefill"[^}]*\} 1/);
    assert.match(metrics, /splits_total\{kind="split",cause="always"[^}]*\} 1/);
    assert.match(metrics, /link_bytes_per_second\{prefill="p1",decode="d1"[^}]*\} 77000000/);
    assert.match(metrics, /transfer_observed_seconds_count(\{[^}]*\})? 1/);
    assert.match(metrics, /transfer_bytes_total(\{[^}]*\})? 320000/);
    const decisions = service.adminRoutes!['/decisions']!() as { split?: { reason: string } }[];
    assert.match(
      decisions[0]?.split?.reason ?? '',
      /^transfer of 320 kB at 77 kB\/ms takes 6\.2 ms/,
    );

    await links.put(linkKey('p1', 'd1'), { ...RECORD, bytesPerMs: 5 });
    await until('news of the link', () => pairs()[0]!.bytesPerMs === 5);
    await links.put(linkKey('p1', 'd9'), { ...RECORD, bytesPerMs: 9 });
    await links.drop(linkKey('p1', 'd1'));
    await until('the end of its record', () => pairs()[0]!.source === 'assumed');
  }));

test('workers that cannot exchange KV are told of in readiness, metrics and the view of links', () =>
  withBench(async (bench) => {
    const { worker, router, place } = bench;
    await worker('d1').join({ transfer: TRANSFER });
    const other = { ...TRANSFER, revision: { engine: 'fake 2' } };
    await worker('p1').join({ role: 'prefill', transfer: other });
    const env = { BUSBAR_DISAGGREGATION: 'always', BUSBAR_DISAGGREGATION_STRICT: 'true' };
    const { service, context } = await router(env);
    const why = 'revision engine is fake 2 at prefill and fake 1 at decode';
    const check = service.checks().find(({ name }) => name === 'roles of m');
    assert.equal(check?.isDegraded, true);
    assert.equal(check.detail, `0 of 1 pairs can exchange KV; p1 and d1 cannot: ${why}`);
    assert.match(await context.registry.metrics(), /pairs_refused(\{[^}]*\})? 1/);
    const pairs = service.adminRoutes!['/links']!() as PairRow[];
    assert.equal(pairs[0]?.refusal, why);
    const reply = await place(prompt(160));
    assert.equal(reply.kind === 'reject' && reply.code, 'ROUTER_NO_PAIR');
    assert.match(reply.kind === 'reject' ? reply.message : '', /fake 2 at prefill/);
  }));

test('a prefill pool without decode workers serves nobody, and says so', () =>
  withBench(async ({ worker, router, place }) => {
    await worker('p1').join({ role: 'prefill', transfer: TRANSFER });
    const { service } = await router();
    const reply = await place(prompt(160));
    assert.equal(reply.kind === 'reject' && reply.code, 'ROUTER_NO_WORKERS');
    const check = service.checks().find(({ name }) => name === 'roles of m');
    assert.match(check?.detail ?? '', /no decode worker is registered/);
    assert.equal(check?.isDegraded, true);
  }));
