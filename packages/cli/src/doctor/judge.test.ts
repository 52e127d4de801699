import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkerInfo } from '@busbar/protocol';
import type { ReadinessBody } from '../clients/admin-pages.ts';
import { fakeContext } from '../testing.ts';
import {
  facts,
  decodeInfo as info,
  instanceOf as instance,
  heartbeat as load,
  workerSeen as seen,
} from './facts.testing.ts';
import type { Facts } from './facts.ts';
import { diagnose, type Finding, renderDiagnosis } from './finding.ts';
import { judge } from './judge.ts';

function bad(changes: Partial<Facts>): Finding[] {
  return judge(facts(changes)).filter((finding) => finding.verdict !== 'ok');
}

test('a healthy stack passes every check', () => {
  const diagnosis = diagnose('ns', judge(facts()));
  assert.equal(diagnosis.ok, true);
  assert.deepEqual(bad({}), []);
  assert.deepEqual(
    [...new Set(diagnosis.findings.map((finding) => finding.group))],
    [
      'bus',
      'processes',
      'KV events',
      'prefix cache',
      'cache size',
      'disaggregation',
      'engines on this machine',
      'machine',
    ],
  );
});

test('one block and one batch are told in the singular', () => {
  const loads = new Map([['d', { ...load, kvSequence: 1 }]]);
  const { cluster } = facts();
  const findings = judge(
    facts({
      cluster: cluster && { ...cluster, loads },
      heardBatches: new Map(),
      storedAfter: new Map(),
      routerWorkers: new Map([['r', [{ ...seen, indexedBlocks: 1 }]]]),
    }),
  );
  const { detail } = findings.find(({ group }) => group === 'KV events') ?? {};
  assert.match(detail ?? '', /; 1 batch since its start; 1 block known to r$/);
});

test('no NATS, an old one, one without JetStream, one with small payloads', () => {
  const nats = facts().nats;
  assert.ok(!('error' in nats));
  assert.match(bad({ nats: { error: 'refused' } })[0]?.detail ?? '', /refused/);
  assert.match(bad({ nats: { ...nats, version: '2.10.29' } })[0]?.advice ?? '', /2\.11 or newer/);
  assert.match(bad({ nats: { ...nats, hasJetStream: false } })[0]?.advice ?? '', /-js/);
  assert.match(bad({ nats: { ...nats, maxPayloadBytes: 65_536 } })[0]?.detail ?? '', /65,536/);
});

test('a start that is advised names the namespace, as the stop before it does', () => {
  const again = /"busbar down --namespace ns", then "busbar up --namespace ns"/;
  assert.match(bad({ nats: { error: 'refused' } })[0]?.advice ?? '', again);
  const { stack } = facts();
  const processes = stack.processes.filter((view) => view.role !== 'decode');
  const none = bad({ stack: { ...stack, processes } }).find(({ name }) => name === 'decode');
  assert.match(none?.advice ?? '', again);
  const never = { nats: { error: 'refused' }, stack: { ...stack, processes: [] } };
  assert.match(bad(never)[0]?.advice ?? '', /^start a stack \("busbar up --namespace ns"\)/);
});

test('a process that ended, one without a lease, one that is not ready', () => {
  const { stack, cluster } = facts();
  const ended = {
    ...stack,
    processes: stack.processes.map((view) =>
      view.id === 'r' ? { ...view, state: 'exited' as const } : view,
    ),
  };
  const findings = bad({ stack: ended });
  assert.deepEqual(
    findings.map((finding) => [finding.name, finding.verdict]),
    [
      ['r', 'fail'],
      ['router', 'fail'],
    ],
  );
  assert.equal(findings[0]?.advice, 'see /l/r.log');
  const instances = new Map(cluster?.instances);
  instances.delete('f');
  assert.match(
    bad({ cluster: { instances, cards: [], loads: cluster?.loads ?? new Map() } })[0]?.detail ?? '',
    /holds no lease/,
  );
  const readiness = new Map<string, ReadinessBody | undefined>([
    ['f', { status: 'unready', checks: [{ name: 'model', ok: false, detail: 'no worker' }] }],
    [
      'r',
      {
        status: 'degraded',
        checks: [{ name: 'kv events', ok: true, isDegraded: true, detail: 'd: none' }],
      },
    ],
  ]);
  assert.deepEqual(
    bad({ readiness }).map((finding) => `${finding.name} ${finding.verdict} ${finding.detail}`),
    [
      'f fail not ready: model: no worker',
      'r warn degraded: kv events: d: none',
      'd fail its admin port does not answer',
    ],
  );
});

test('processes: one of another machine with its admin port on loopback is no fault', () => {
  const { stack } = facts();
  const elsewhere = (adminUrl: string): Partial<Facts> => ({
    stack: {
      ...stack,
      processes: stack.processes.map((view) =>
        view.id === 'd' ? { ...view, isManaged: false, host: 'gpu-1', adminUrl } : view,
      ),
    },
    readiness: new Map([...facts().readiness].filter(([id]) => id !== 'd')),
  });
  const [hidden] = bad(elsewhere('http://127.0.0.1:4711'));
  assert.equal(hidden?.verdict, 'warn');
  assert.match(hidden.detail, /lease on gpu-1 says ready; its admin port is on loopback there/);
  assert.match(hidden.advice ?? '', /BUSBAR_ADMIN_HOST on gpu-1/);
  assert.equal(bad(elsewhere('http://10.0.0.1:4711'))[0]?.verdict, 'fail');
});

test('KV events: off, promised and not sent, never sent, not believed, not known', () => {
  const { cluster } = facts();
  const withInfo = (worker: WorkerInfo) => ({
    cards: [],
    loads: cluster?.loads ?? new Map(),
    instances: new Map([...(cluster?.instances ?? []), ['d', instance('decode', 'd', worker)]]),
  });
  const one = (changes: Partial<Facts>): Finding => {
    const findings = bad(changes).filter((finding) => finding.group === 'KV events');
    assert.equal(findings.length, 1);
    assert.equal(findings[0]?.verdict, 'fail');
    return findings[0];
  };
  const off = one({ cluster: withInfo({ ...info, kvEvents: false }) });
  assert.match(off.detail, /without KV events/);
  assert.match(off.advice ?? '', /--no-kv-events/);
  assert.match(one({ heardBatches: new Map() }).detail, /stored 37 blocks .* sent no event/);
  const busy = new Map([['d', { ...load, running: 1 }]]);
  const before = { instances: cluster?.instances ?? new Map(), cards: [], loads: busy };
  assert.deepEqual(bad({ heardBatches: new Map(), cluster: before }), []);
  const never = {
    instances: cluster?.instances ?? new Map(),
    cards: [],
    loads: new Map([['d', { ...load, kvSequence: 0 }]]),
  };
  const quiet = { heardBatches: new Map(), storedAfter: new Map([['d', 100]]) };
  assert.match(one({ ...quiet, cluster: never }).detail, /never sent an event/);
  const demoted = { ...seen, truth: 'approximate' as const, reason: 'no events for 10 s' };
  assert.match(
    one({ routerWorkers: new Map([['r', [demoted]]]) }).detail,
    /r routes to it as approximate: no events for 10 s/,
  );
  assert.deepEqual(bad({ routerWorkers: new Map([['r', [demoted]]]), policy: 'approximate' }), []);
  assert.match(one({ routerWorkers: new Map([['r', []]]) }).detail, /does not know/);
});

test('a worker that the probe did not reach is not blamed', () => {
  const quiet = { heardBatches: new Map(), storedAfter: new Map([['d', 100]]) };
  assert.deepEqual(bad(quiet), []);
});

test('a resend that misses fails, unless the policy does not look at prefixes', () => {
  const probe = { promptTokens: 600, cachedTokens: [0, 0, 0, 16], ttftMs: [90, 90, 90, 90] };
  assert.equal(bad({ probe })[0]?.verdict, 'fail');
  assert.equal(bad({ probe, policy: 'round-robin' })[0]?.verdict, 'warn');
  const [failed] = bad({ probe: { error: '503: no worker' }, probeUrl: 'http://other:1' });
  assert.equal(failed?.detail, '503: no worker');
  assert.match(failed.advice ?? '', /^the API at http:\/\/other:1 must answer/);
});

test('a context that the probe does not fit into is told as that, and is no silent API', () => {
  const [finding] = bad({ probe: { tooLong: '400: The context is 20 tokens.' } });
  assert.equal(finding?.verdict, 'warn');
  assert.match(finding.detail, /not tried: 400: The context is 20 tokens/);
  assert.match(finding.advice ?? '', /longer context/);
});

test('a hit tells both times, and one that saves nothing is doubted', () => {
  const probe = (ttftMs: number[]) => ({ promptTokens: 600, cachedTokens: [0, 0, 592], ttftMs });
  const [ok] = judge(facts({ probe: probe([97.4, 80, 26]) })).filter(
    (finding) => finding.group === 'prefix cache',
  );
  assert.equal(ok?.verdict, 'ok');
  assert.match(ok.detail, /; first token after 97 ms cold, 26 ms again$/);
  const [slow] = bad({ probe: probe([97, 10, 98]) });
  assert.equal(slow?.verdict, 'warn');
  assert.match(slow.advice ?? '', /saved no time/);
  assert.deepEqual(bad({ probe: probe([6, 6, 7]) }), [], 'too fast to be compared');
});

test('prefixes that do not fit into a cache are told with what would', () => {
  const wanted = { ...seen, wantedBlocks: 1_389 };
  const [finding] = bad({ routerWorkers: new Map([['r', [wanted]]]) });
  assert.equal(finding?.verdict, 'warn');
  assert.match(finding.detail, /; 22,224 tokens of prefixes wanted$/);
  assert.match(finding.advice ?? '', /do not fit.*\(1\.5 times the size of this cache\)/);
  assert.deepEqual(
    bad({ routerWorkers: new Map([['r', [{ ...wanted, wantedBlocks: 926 }]]]) }),
    [],
  );
});

test('what an engine would meet on this machine', () => {
  const message = 'Engine processes of an earlier vLLM still run: 7.';
  const findings = [{ kind: 'leftover', message, remedy: 'kill -TERM -- -7' }] as const;
  const host = { findings, hasModel: true, build: 'vLLM for CUDA 12.8, driver 570' };
  const seenHere = judge(facts({ host })).filter(
    (finding) => finding.group === 'engines on this machine',
  );
  assert.deepEqual(
    seenHere.map(({ name, verdict, detail }) => [name, verdict, detail]),
    [
      ['engine processes', 'fail', 'Engine processes of an earlier vLLM still run: 7'],
      ['model locks', 'ok', 'none is held'],
      ['driver and CUDA', 'ok', 'vLLM for CUDA 12.8, driver 570'],
    ],
  );
});

test('a vLLM that cannot be told is a warning, and a command that workers refuse a fault', () => {
  const judged = (isRefused: boolean): Finding[] =>
    bad({ host: { findings: [], hasModel: false, command: { problem: 'odd.', isRefused } } });
  const [unknown] = judged(false);
  assert.deepEqual([unknown?.name, unknown?.verdict, unknown?.detail], ['vLLM', 'warn', 'odd']);
  assert.match(unknown?.advice ?? '', /--enable-scale-out/);
  assert.deepEqual(
    judged(true).map(({ verdict }) => verdict),
    ['fail'],
  );
});

test('what hung while it was looked at is a fault of its own', () => {
  const [finding] = bad({ givenUp: ['reading leases from the bus took longer than 5 s'] });
  assert.equal(finding?.verdict, 'fail');
  assert.equal(finding.group, 'this diagnosis');
});

test('a full cache and a low limit of open files are warnings', () => {
  const { stack } = facts();
  const full = {
    ...stack,
    processes: stack.processes.map((view) => ({ ...view, freeBlocks: 3, activeBlocks: 100 })),
  };
  const [finding] = bad({ stack: full });
  assert.equal(finding?.verdict, 'warn');
  assert.match(finding?.advice ?? '', /About 9 prompts of 1,500 tokens/);
  assert.equal(bad({ openFilesMax: 1024 })[0]?.verdict, 'warn');
});

test('the tree marks each finding and counts', () => {
  const { terminal } = fakeContext().context;
  const diagnosis = diagnose('ns', judge(facts({ heardBatches: new Map() })));
  const lines = renderDiagnosis(diagnosis, terminal);
  assert.equal(diagnosis.ok, false);
  assert.equal(lines[0], 'bus');
  assert.equal(lines[1], '  ✓ NATS reachable: nats-server 2.15.1 at nats://n:1');
  assert.ok(lines.some((line) => line.startsWith('  ✗ d: it stored 37 blocks')));
  assert.ok(lines.some((line) => line.startsWith('      → ')));
  assert.match(lines.at(-1) ?? '', /^\d+ checks, 1 failed, 0 warned$/);
});
