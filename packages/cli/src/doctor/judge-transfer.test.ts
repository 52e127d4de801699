import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LinkRecord, TransferInfo } from '@busbar/protocol';
import { decodeInfo, facts, instanceOf } from './facts.testing.ts';
import type { Facts } from './facts.ts';
import type { Finding } from './finding.ts';
import { judge } from './judge.ts';

const transfer: TransferInfo = {
  protocol: 'tcp',
  revision: { engine: 'mock 1' },
  kvBytesPerToken: 114_688,
  endpoint: '10.0.0.1:7000',
};

const link: LinkRecord = {
  protocol: 1,
  prefillWorkerId: 'p',
  decodeWorkerId: 'd',
  transferProtocol: 'tcp',
  transfers: 12,
  failures: 0,
  bytesTotal: 2_000_000_000,
  busyMsTotal: 20_000,
  bytesPerMs: 104_000,
  latencyMs: 1,
  source: 'transfers',
  updatedAt: '',
};

/** A prefill worker `p` beside the decode worker `d`. */
function pools(changes: Partial<TransferInfo> = {}, links: LinkRecord[] = [link]): Facts {
  const { cluster } = facts();
  const prefill = {
    ...decodeInfo,
    role: 'prefill',
    transfer: { ...transfer, ...changes },
  } as const;
  return facts({
    links,
    cluster: {
      cards: [],
      loads: cluster?.loads ?? new Map(),
      instances: new Map([
        ...(cluster?.instances ?? []),
        ['d', instanceOf('decode', 'd', { ...decodeInfo, transfer })],
        ['p', instanceOf('prefill', 'p', prefill)],
      ]),
    },
  });
}

function of(group: string, all: Facts): Finding[] {
  return judge(all).filter((finding) => finding.group === group);
}

test('a link of engines that move KV by themselves is told of until something came over it', () => {
  const nixl = { ...link, transfers: 0, transferProtocol: 'nixl' } as const;
  const all = (changes: Partial<LinkRecord>): Finding[] => {
    const { cluster, ...rest } = pools({ protocol: 'nixl' }, [{ ...nixl, ...changes }]);
    const decode = { ...decodeInfo, transfer: { ...transfer, protocol: 'nixl' as const } };
    cluster?.instances.set('d', instanceOf('decode', 'd', decode));
    return of('KV transfer', { ...rest, cluster });
  };
  const [open] = all({ lastFailure: 'it took too long' });
  assert.equal(open?.verdict, 'warn');
  assert.match(open.detail, /no KV came over it yet, and the last try failed: it took too long/);
  assert.equal(all({ isProven: true })[0]?.verdict, 'ok');
});

test('a link of engines that move KV by themselves is told of until something came over it', () => {
  const nixl = { ...link, transfers: 0, transferProtocol: 'nixl' } as const;
  const all = (changes: Partial<LinkRecord>): Finding[] => {
    const made = pools({ protocol: 'nixl' }, [{ ...nixl, ...changes }]);
    const decode = { ...decodeInfo, transfer: { ...transfer, protocol: 'nixl' as const } };
    const instances = new Map(made.cluster?.instances);
    instances.set('d', instanceOf('decode', 'd', decode));
    return of('KV transfer', { ...made, cluster: { ...made.cluster!, instances } });
  };
  const [open] = all({ lastFailure: 'it took too long' });
  assert.equal(open?.verdict, 'warn');
  assert.match(open.detail, /no KV came over it yet, and the last try failed: it took too long/);
  assert.equal(all({ isProven: true })[0]?.verdict, 'ok');
});

test('a measured link tells its rate and what it takes for two prompts', () => {
  assert.deepEqual(of('KV transfer', pools()), [
    {
      group: 'KV transfer',
      name: 'p → d',
      verdict: 'ok',
      detail:
        '0.83 Gbit/s by 12 transfers, none failed; 1,500 tokens are 172 MB: 1.7 s; 4,032 tokens are 462 MB: 4.4 s',
    },
  ]);
});

test('a probed, an assumed and a failing link say so', () => {
  const one = (links: LinkRecord[]): Finding => of('KV transfer', pools({}, links))[0]!;
  const probed = one([{ ...link, transfers: 0, source: 'probe' }]);
  assert.equal(probed.verdict, 'ok');
  assert.match(probed.detail, /by a probe, no transfer yet/);
  const assumed = one([]);
  assert.equal(assumed.verdict, 'warn');
  assert.match(assumed.detail, /^1\.00 Gbit\/s assumed; nothing measured yet/);
  const failing = one([{ ...link, transfers: 3, failures: 2, lastFailure: 'connection refused' }]);
  assert.equal(failing.verdict, 'fail');
  assert.match(failing.detail, /2 of 5 transfers failed, the last: connection refused/);
  assert.match(failing.advice ?? '', /the address that p gives \(BUSBAR_TRANSFER_HOST/);
  const once = one([{ ...link, failures: 1, lastFailure: 'reset' }]);
  assert.equal(once.verdict, 'warn');
  assert.match(once.detail, /1 failed, the last: reset/);
});

test('a router that avoids a link after failures is named', () => {
  const avoided = { prefillWorkerId: 'p', decodeWorkerId: 'd', suspectForMs: 5 };
  const all = { ...pools(), routerLinks: new Map([['r', [avoided]]]) };
  const [finding] = of('KV transfer', all);
  assert.equal(finding?.verdict, 'warn');
  assert.match(finding.detail, /^r splits no request over it/);
});

test('a refused pair says what differs, and a prefill worker without any pair is a fault', () => {
  const found = of('KV transfer', pools({ revision: { engine: 'mock 2' } }));
  assert.deepEqual(
    found.map(({ name, verdict }) => [name, verdict]),
    [
      ['p → d', 'warn'],
      ['p', 'fail'],
    ],
  );
  assert.match(found[0]?.detail ?? '', /refused: .*mock 2 at prefill and mock 1 at decode/);
  assert.match(found[1]?.detail ?? '', /serves nobody/);
});

test('strict modes without a prefill worker refuse requests', () => {
  const strict = { isStrict: true, mode: 'always' };
  const [finding] = of('KV transfer', facts({ disaggregation: strict }));
  assert.equal(finding?.verdict, 'fail');
  assert.match(finding.detail, /always and strict, and no prefill worker is here/);
  assert.deepEqual(of('KV transfer', facts({ disaggregation: { ...strict, mode: 'auto' } })), []);
});
