import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StagedStore } from './staged-store.ts';
import { hashesOf } from './testing.ts';
import type { StagedFetch } from './types.ts';

const STAGED_MS = 1000;

function start(): { store: StagedStore; ends: string[]; open: () => StagedFetch } {
  const ends: string[] = [];
  const store = new StagedStore(STAGED_MS, (key, how) => ends.push(`${key} ${how}`));
  store.add({ key: 1, transferId: 't', hashes: hashesOf(2), blockBytes: 10 });
  const open = (): StagedFetch => {
    const fetch = store.open('t');
    assert.ok(typeof fetch !== 'string', 'it is there');
    return fetch;
  };
  return { store, ends, open };
}

function refusal(store: StagedStore): string {
  const reason = store.open('t');
  assert.ok(typeof reason === 'string', 'it is not there');
  return reason;
}

test('staged KV expires at its deadline, once', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { store, ends } = start();
  t.mock.timers.tick(STAGED_MS - 1);
  assert.deepEqual(ends, []);
  assert.ok(store.has(1));
  t.mock.timers.tick(1);
  assert.deepEqual(ends, ['1 expired']);
  assert.equal(store.release(1), false);
  assert.match(refusal(store), /its time ran out/);
});

test('a fetch that began in time may end after the deadline; received or broken', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  for (const [outcome, end] of [
    ['received', '1 fetched'],
    ['broken', '1 expired'],
  ] as const) {
    const { ends, open } = start();
    t.mock.timers.tick(STAGED_MS - 1);
    const fetch = open();
    t.mock.timers.tick(60 * STAGED_MS);
    assert.deepEqual(ends, []);
    fetch.end(outcome);
    assert.deepEqual(ends, [end]);
  }
});

test('a fetch that breaks before the deadline leaves it to another try', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { store, ends, open } = start();
  const first = open();
  assert.match(refusal(store), /being fetched already/);
  first.end('broken');
  assert.deepEqual(ends, []);
  open().end('received');
  assert.deepEqual(ends, ['1 fetched']);
  t.mock.timers.tick(2 * STAGED_MS);
  assert.deepEqual(ends, ['1 fetched']);
});

test('release ends it at once, and the fetch with it', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { store, ends, open } = start();
  const fetch = open();
  let closed = 0;
  fetch.onGone(() => closed++);
  assert.ok(store.release(1));
  assert.equal(closed, 1);
  assert.deepEqual(ends, ['1 released']);
  fetch.end('broken');
  assert.deepEqual(ends, ['1 released']);
  store.add({ key: 1, transferId: 't', hashes: hashesOf(2), blockBytes: 10 });
  store.add({ key: 2, transferId: 'u', hashes: hashesOf(2), blockBytes: 10 });
  fetch.end('received');
  assert.deepEqual(ends, ['1 released'], 'an old fetch says nothing of a new prompt');
  store.releaseAll();
  assert.deepEqual(ends, ['1 released', '1 released', '2 released']);
});
