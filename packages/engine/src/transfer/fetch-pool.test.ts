import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { type FetchReport, LinkLedger } from '@busbar/links';
import { limit } from '@busbar/protocol';
import { until } from '../until.testing.ts';
import { FetchPool } from './fetch-pool.ts';
import { StagedStore } from './staged-store.ts';
import { hashesOf, withPeer, withServer } from './testing.ts';
import { MAGIC, REQUEST, STATUS, writeHead } from './wire.ts';

const clock = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };
const WORKERS = 8;
const FETCHES = limit('kvFetches');
const HASHES = hashesOf(2);
const BLOCK_BYTES = 100_000;

/** A decode worker: a pool whose fetches are told to a ledger as a worker tells them. */
class Fetcher {
  readonly ledger = new LinkLedger('decode', 'tcp');
  readonly reports: FetchReport[] = [];
  /** "begin", "busy" and "end" in the order in which they came, by key. */
  readonly heard = new Map<number, string[]>();
  readonly #pool: FetchPool;

  constructor() {
    this.#pool = new FetchPool(clock, {
      onBegin: (key) => {
        this.#note(key, 'begin');
        this.ledger.began(key, 'p', performance.now());
      },
      onBusy: (key) => {
        this.#note(key, 'busy');
        this.ledger.ended(key, { outcome: 'busy', bytes: 0 }, performance.now());
      },
      onEnd: (key, report, hasBegun) => {
        this.#note(key, hasBegun ? 'end' : 'end without begin');
        this.reports.push(report);
        if (hasBegun) this.ledger.ended(key, report, performance.now());
      },
    });
  }

  start(key: number, endpoint: string, validForMs = 20_000): void {
    const what = { transferId: `t${key}`, fromBlock: 0, hashes: HASHES, blockBytes: BLOCK_BYTES };
    const validUntilMs = performance.now() + validForMs;
    this.#pool.start({ key, endpoint, ...what, timeoutMs: 60_000, validUntilMs });
  }

  cancel(key: number): void {
    this.#pool.cancel(key);
  }

  get allWait(): boolean {
    return this.heard.size === FETCHES && [...this.heard.values()].every((s) => s.includes('busy'));
  }

  #note(key: number, what: string): void {
    this.heard.set(key, [...(this.heard.get(key) ?? []), what]);
  }
}

function staged(keys: number): { store: StagedStore; ends: string[] } {
  const ends: string[] = [];
  const store = new StagedStore(60_000, (_key, how) => ends.push(how));
  for (let key = 0; key < keys; key++) {
    store.add({ key, transferId: `t${key}`, hashes: HASHES, blockBytes: BLOCK_BYTES });
  }
  return { store, ends };
}

/** Takes `count` places of the server: readers of long prompts that stop reading. */
async function standStill(store: StagedStore, endpoint: string, count: number): Promise<Socket[]> {
  const sockets: Socket[] = [];
  for (let at = 0; at < count; at++) {
    const transferId = `still-${at}`;
    store.add({ key: 1_000 + at, transferId, hashes: hashesOf(40), blockBytes: 1_835_008 });
    const id = Buffer.from(transferId);
    const socket = connect({ host: '127.0.0.1', port: Number(endpoint.split(':')[1]) });
    socket.on('error', () => {});
    socket.once('data', () => socket.pause());
    socket.write(Buffer.concat([writeHead([MAGIC, REQUEST.fetch, 0, id.length]), id]));
    sockets.push(socket);
  }
  await until('the first bytes', () => sockets.every(({ bytesRead }) => bytesRead > 0));
  return sockets;
}

describe('a busy server is not a broken link', () => {
  for (const [what, stillCount, limits] of [
    ['behind as many as it sends at once', 64, {}],
    ['behind 4', 4, { maxSends: 4 }],
    ['behind 4, some without room to wait', 4, { maxSends: 4, maxConnections: 100 }],
  ] as const) {
    test(`${WORKERS} decode workers fetch ${FETCHES} prompts each, ${what}`, async () => {
      const { store, ends } = staged(WORKERS * FETCHES);
      const fetchers = Array.from({ length: WORKERS }, () => new Fetcher());
      const use = async ({ endpoint }: { endpoint: string }): Promise<void> => {
        const still = await standStill(store, endpoint, stillCount);
        for (const [at, fetcher] of fetchers.entries()) {
          for (let i = 0; i < FETCHES; i++) fetcher.start(at * FETCHES + i, endpoint);
        }
        await until('all wait', () => fetchers.every((one) => one.allWait));
        for (const socket of still) socket.destroy();
        await until('all ends', () => fetchers.every((one) => one.reports.length === FETCHES));
        await until('all confirmations', () => ends.length === WORKERS * FETCHES);
        store.releaseAll();
      };
      await withServer(store, use, limits);
      assert.ok(ends.slice(0, WORKERS * FETCHES).every((how) => how === 'fetched'));
      for (const { reports, ledger, heard } of fetchers) {
        assert.ok(reports.every(({ outcome }) => outcome === 'ok'));
        const { transfers, failures, lastFailure } = ledger.figures('p')!;
        assert.deepEqual([transfers, failures, lastFailure], [FETCHES, 0, undefined]);
        for (const steps of heard.values()) assert.match(steps.join(), /^(begin,busy,)*begin,end$/);
      }
    });
  }

  test('a fetch for which there is never room asks again and fails in time; its link has not failed', async () => {
    const busy = writeHead([MAGIC, STATUS.busy, 0, 0]);
    let asked = 0;
    await withPeer(
      (socket) => {
        socket.once('data', () => {
          asked++;
          socket.end(busy);
        });
      },
      async (endpoint) => {
        const fetcher = new Fetcher();
        fetcher.start(1, endpoint, 300);
        await until('the end', () => fetcher.reports.length > 0);
        assert.equal(fetcher.reports[0]?.outcome, 'failed');
        assert.match(fetcher.reports[0]?.reason ?? '', /it serves others/);
        assert.match(fetcher.heard.get(1)?.join() ?? '', /^(begin,busy,)+end without begin$/);
        assert.equal(fetcher.ledger.figures('p')?.failures, 0);
        assert.ok(asked > 1, 'it asked again');
      },
    );
  });

  test('a link that breaks while a fetch waits has failed', async () => {
    const waiting = writeHead([MAGIC, STATUS.waiting, 0, 0]);
    await withPeer(
      (socket) => {
        socket.once('data', () => {
          socket.write(waiting);
          socket.end(waiting);
        });
      },
      async (endpoint) => {
        const fetcher = new Fetcher();
        fetcher.start(1, endpoint);
        await until('the end', () => fetcher.reports.length > 0);
        assert.deepEqual(fetcher.heard.get(1), ['begin', 'busy', 'begin', 'end']);
        assert.equal(fetcher.ledger.figures('p')?.failures, 1);
      },
    );
  });

  test('a fetch that waits can be given up, and its turn goes to the next', async () => {
    const { store } = staged(3);
    const use = async ({ endpoint }: { endpoint: string }): Promise<void> => {
      const [still] = await standStill(store, endpoint, 1);
      const [one, two] = [new Fetcher(), new Fetcher()];
      one.start(1, endpoint);
      await until('the wait', () => one.heard.get(1)?.includes('busy') === true);
      two.start(2, endpoint);
      one.cancel(1);
      await until('the cancel', () => one.reports.length > 0);
      still?.destroy();
      await until('the other', () => two.reports.length > 0);
      assert.deepEqual([one.reports[0]?.outcome, two.reports[0]?.outcome], ['cancelled', 'ok']);
      assert.deepEqual(one.heard.get(1), ['begin', 'busy', 'end without begin']);
      const { transfers, failures } = one.ledger.figures('p')!;
      assert.deepEqual([transfers, failures], [0, 0]);
    };
    await withServer(store, use, { maxSends: 1 });
    store.releaseAll();
  });
});
