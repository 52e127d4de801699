import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LinkRecord, TransferInfo, WorkerInfo } from '@busbar/protocol';
import { decodeInfo, facts, heartbeat, instanceOf } from './facts.testing.ts';
import type { Facts } from './facts.ts';
import { judge } from './judge.ts';

const transfer: TransferInfo = {
  protocol: 'tcp',
  revision: {},
  kvBytesPerToken: 114_688,
  endpoint: '10.0.0.1:7000',
};
/** 1,500 tokens in 75 ms, as on the small GPU of which the figures were published. */
const decode: WorkerInfo = { ...decodeInfo, prefillTokensPerMs: 20, decodeStepMs: 13, transfer };

function pools(prefill: WorkerInfo | undefined, links: LinkRecord[] = []): Facts {
  const { cluster } = facts();
  const instances = new Map(cluster?.instances);
  instances.set('d', instanceOf('decode', 'd', decode));
  if (prefill !== undefined) instances.set('p', instanceOf('prefill', 'p', prefill));
  return facts({ links, cluster: { cards: [], loads: new Map(), instances } });
}

function link(bytesPerMs: number): LinkRecord {
  return {
    protocol: 1,
    prefillWorkerId: 'p',
    decodeWorkerId: 'd',
    transferProtocol: 'tcp',
    transfers: 5,
    failures: 0,
    bytesTotal: 1,
    busyMsTotal: 1,
    bytesPerMs,
    latencyMs: 1,
    source: 'transfers',
    updatedAt: '',
  };
}

function said(all: Facts): string {
  const found = judge(all).filter((finding) => finding.group === 'disaggregation');
  assert.equal(found.length, 1);
  assert.equal(found[0]?.verdict, 'ok', 'that it does not pay is no fault');
  return found[0].detail;
}

test('an equal pool on 1 Gbit/s does not pay: the link takes longer than the prefill', () => {
  const text = said(pools({ ...decode, role: 'prefill' }, [link(104_000)]));
  assert.match(
    text,
    /^does not pay, because of 1,500 tokens: \d+ ms on d, 1\.\d s by p, of which 17\d MB at 0\.83 Gbit\/s = 1\.7 s on the link, and would pay on no link; /,
  );
  assert.match(text, /\(decode workers idle now\)$/);
});

test('a worker that has ended is no part of the sum while its lease still stands', () => {
  const all = pools({ ...decode, role: 'prefill' }, [link(104_000)]);
  all.cluster?.instances.set('e', instanceOf('decode', 'e', decode));
  for (const id of ['d', 'e']) all.cluster?.loads.set(id, { ...heartbeat, running: 1 });
  assert.match(said(all), /\(1 request runs on each now\)$/);
  const { stack } = all;
  const exited = { role: 'decode', id: 'd', pid: 2, state: 'exited', isManaged: true } as const;
  const ended = { ...all, stack: { ...stack, processes: [...stack.processes, exited] } };
  assert.match(said(ended), / ms on e, /);
  const links = judge(ended).filter((finding) => finding.group === 'KV transfer');
  assert.deepEqual(
    links.map(({ name }) => name),
    ['p → e'],
  );
});

test('a pool that computes eight times faster pays on 400 Gbit/s', () => {
  const fast = { ...decode, role: 'prefill', prefillTokensPerMs: 160 } as const;
  assert.match(said(pools(fast, [link(50_000_000)])), /^pays, because of 1,500 tokens: /);
});

test('without a pool it says from which link rate on one would pay, idle and busy', () => {
  const text = said(pools(undefined));
  assert.match(
    text,
    /^does not pay, because there is no prefill worker; one like d would pay for 1,500 tokens \(172 MB\) on /,
  );
  assert.match(
    text,
    /on no link while nothing runs, from \d+\.\d+ Gbit\/s while 16 requests decode/,
  );
});

test('pools that cannot exchange KV, and workers that tell no way', () => {
  const other = {
    ...decode,
    role: 'prefill',
    transfer: { ...transfer, protocol: 'nixl' },
  } as const;
  assert.match(said(pools(other)), /^does not pay, because no prefill worker makes a pair/);
  const { transfer: _, ...mute } = decode;
  const all = facts();
  all.cluster?.instances.set('d', instanceOf('decode', 'd', mute));
  assert.match(said(all), /tell no way to exchange KV \(/);
});
