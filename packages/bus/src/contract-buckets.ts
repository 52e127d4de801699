import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type BusPair,
  byKey,
  bytes,
  code,
  collect,
  describeChange,
  sleep,
  text,
  until,
} from './contract-tools.ts';
import type { BusChange } from './port.ts';

export function bucketContract(pair: () => BusPair): void {
  test('put, get, entries and delete agree between buses; revisions grow', async () => {
    const { a, b } = pair();
    const [here, there] = [await a.bucket('contract_kv'), await b.bucket('contract_kv')];
    assert.equal(await there.get('worker.none'), undefined);
    const first = await here.put('worker.one', bytes('1'));
    const second = await here.put('worker.one', bytes('2'));
    await here.put('model/x=y', bytes('m'));
    assert.ok(second > first);
    const entry = await there.get('worker.one');
    assert.deepEqual(
      [entry?.key, entry && text(entry.value), entry?.revision],
      ['worker.one', '2', second],
    );
    const all = (await there.entries()).toSorted(byKey).map(({ key }) => key);
    assert.deepEqual(all, ['model/x=y', 'worker.one']);
    await there.delete('worker.one');
    await there.delete('worker.never');
    assert.equal(await here.get('worker.one'), undefined);
    assert.deepEqual(
      (await here.entries()).map(({ key }) => key),
      ['model/x=y'],
    );
  });

  test('keys that cannot be a subject are refused', async () => {
    const bucket = await pair().a.bucket('contract_kv');
    for (const key of ['', 'a b', 'a.*', '>', '.a', 'a.', 'ü']) {
      await assert.rejects(bucket.put(key, bytes('x')), /invalid key/, key);
    }
  });

  test('a watch tells all entries, a snapshot, then each change of a value', async () => {
    const { a, b } = pair();
    const [here, there] = [await a.bucket('contract_watch'), await b.bucket('contract_watch')];
    await here.put('x', bytes('1'));
    await here.put('y', bytes('1'));
    await here.put('z', bytes('1'));
    await here.delete('z');
    const told: string[] = [];
    const watch = await there.watch((change) => told.push(describeChange(change)));
    await until(() => told.length >= 3, 3_000, 'snapshot');
    assert.deepEqual(told.splice(0), ['put x=1', 'put y=1', 'snapshot x,y']);
    await here.put('x', bytes('2'));
    await here.put('x', bytes('2'));
    await here.delete('y');
    await here.put('y', bytes('3'));
    await until(() => told.length >= 3, 3_000, 'changes');
    await sleep(30);
    assert.deepEqual(told.splice(0), ['put x=2', 'gone y', 'put y=3']);
    watch.unsubscribe();
    await here.put('x', bytes('4'));
    await sleep(50);
    assert.deepEqual(told, []);
  });

  test('a filter leaves only the keys below its names, in watches, snapshots and listings', async () => {
    const { a, b } = pair();
    const [here, there] = [await a.bucket('contract_filter'), await b.bucket('contract_filter')];
    for (const key of ['cat.1', 'cat.2.x', 'catfish.1', 'dog.1', 'cow.1', 'cat']) {
      await here.put(key, bytes('1'));
    }
    const told: string[] = [];
    const filter = { under: ['cat', 'dog'] };
    const watch = await there.watch((change) => told.push(describeChange(change)), filter);
    await until(() => told.length >= 4, 3_000, 'snapshot');
    assert.deepEqual(told.splice(0), [
      'put cat.1=1',
      'put cat.2.x=1',
      'put dog.1=1',
      'snapshot cat.1,cat.2.x,dog.1',
    ]);
    const listed = (await there.entries(filter)).map(({ key }) => key).toSorted();
    assert.deepEqual(listed, ['cat.1', 'cat.2.x', 'dog.1']);
    await here.put('cow.1', bytes('2'));
    await here.put('dog.2', bytes('2'));
    await here.delete('cow.1');
    await here.delete('cat.1');
    await until(() => told.length >= 2, 3_000, 'changes');
    await sleep(30);
    assert.deepEqual(told, ['put dog.2=2', 'gone cat.1']);
    watch.unsubscribe();
  });

  test('a watch of an empty bucket tells its snapshot too; a throwing handler keeps it alive', async () => {
    const { a, b } = pair();
    const [here, there] = [await a.bucket('contract_empty'), await b.bucket('contract_empty')];
    const told: string[] = [];
    const watch = await there.watch((change) => {
      told.push(describeChange(change));
      throw new Error('watch handler threw');
    });
    await until(() => told.length === 1, 3_000, 'empty snapshot');
    await here.put('k', bytes('v'));
    await here.delete('k');
    await until(() => told.length === 3, 3_000, 'changes');
    assert.deepEqual(told, ['snapshot ', 'put k=v', 'gone k']);
    watch.unsubscribe();
  });
}

export function leaseContract(pair: () => BusPair): void {
  test('a lease is renewed past its time to live, carries updates, and is gone when released', async () => {
    const { a, b } = pair();
    const [here, there] = [await a.bucket('contract_lease'), await b.bucket('contract_lease')];
    const told: string[] = [];
    const watch = await there.watch((change) => told.push(describeChange(change)));
    const lease = await here.lease('worker.held', bytes('1'), { ttlMs: 1_000, renewMs: 250 });
    await sleep(2_300);
    assert.equal(lease.isHeld, true);
    await lease.update(bytes('2'));
    await until(() => told.length === 3, 2_000, 'update');
    await lease.release();
    assert.equal(lease.isHeld, false);
    await until(() => told.length === 4, 2_000, 'release');
    assert.deepEqual(told, [
      'snapshot ',
      'put worker.held=1',
      'put worker.held=2',
      'gone worker.held',
    ]);
    await assert.rejects(lease.update(bytes('3')), code('BUS_CLOSED'));
    watch.unsubscribe();
  });

  test('a key under lease that somebody deletes comes back with the next renewal', async () => {
    const bucket = await pair().a.bucket('contract_lease');
    const lease = await bucket.lease('worker.back', bytes('1'), { ttlMs: 2_000, renewMs: 100 });
    await bucket.delete('worker.back');
    await sleep(300);
    assert.notEqual(await bucket.get('worker.back'), undefined);
    await lease.release();
  });
}

export function breakContract(pair: () => BusPair): void {
  test('after a break: status, requests, buffered messages, watches and leases', async () => {
    const network = pair();
    const { a, b } = network;
    const bucket = await b.bucket('contract_break');
    const watched = await a.bucket('contract_break');
    const told: string[] = [];
    await watched.watch((change) => told.push(describeChange(change)));
    await bucket.put('stays', bytes('1'));
    const lease = await bucket.lease('lease', bytes('l'), { ttlMs: 3_000, renewMs: 200 });
    await until(() => told.length === 3, 3_000, 'first changes');
    told.length = 0;
    const seen = await collect(a, 'c.buffered');
    b.subscribe('c.hang', () => {});
    await b.flush();
    const statuses: BusChange[] = [];
    a.onStatus((status) => statuses.push(status));

    const hanging = a.request('c.hang', bytes('?'), { timeoutMs: 60_000 });
    const ended = assert.rejects(hanging, code('BUS_DISCONNECTED'));
    await sleep(20);
    await network.disrupt();
    await ended;
    await until(() => a.status === 'disconnected' && b.status === 'disconnected', 3_000, 'break');
    const question = a.request('c.hang', bytes('?'), { timeoutMs: 60_000 });
    await assert.rejects(question, code('BUS_DISCONNECTED'));
    await assert.rejects(bucket.get('stays'), code('BUS_DISCONNECTED'));
    await assert.rejects(a.flush(), code('BUS_DISCONNECTED'));
    for (let i = 0; i < 20; i++) a.publish('c.buffered', bytes(`${i}`));
    const chunk = new Uint8Array(a.maxPayloadBytes);
    assert.throws(() => {
      for (let i = 0; i < 64; i++) a.publish('c.filler', chunk);
    }, code('BUS_DISCONNECTED'));
    assert.equal(a.counters.refusedPublishes, 1);

    await network.restore();
    await until(() => b.status === 'connected' && a.status === 'connected', 5_000, 'reconnect');
    assert.deepEqual(statuses, ['disconnected', 'reconnected']);
    await until(() => told.some((line) => line.startsWith('snapshot')), 5_000, 'new snapshot');
    assert.deepEqual(told.filter((line) => line === 'put stays=1').length, 1);
    await until(() => lease.isHeld, 3_000, 'lease held again');
    assert.notEqual(await watched.get('lease'), undefined);
    told.length = 0;
    await bucket.put('new', bytes('n'));
    await until(() => told.includes('put new=n'), 3_000, 'change after the break');
    await until(() => seen.length === 20, 3_000, 'buffered messages');
    assert.deepEqual(
      seen,
      Array.from({ length: 20 }, (_, i) => `${i}`),
    );
    await lease.release();
    assert.equal(await watched.get('lease'), undefined);
  });
}
