import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { breakContract, bucketContract, leaseContract } from './contract-buckets.ts';
import { type BusPair, bytes, code, collect, sleep, text, until } from './contract-tools.ts';
import type { BusMessage } from './port.ts';

export type { BusPair } from './contract-tools.ts';

/**
 * The behaviour that every Bus has. Where implementations may differ, the test says so: NATS picks the member of a
 * queue group by chance (memory takes turns), and counts the time to live of a key in whole seconds (memory in
 * milliseconds).
 */
export function busContract(name: string, makePair: () => Promise<BusPair>): void {
  describe(`${name}: contract of Bus`, () => {
    let pair: BusPair;
    before(async () => {
      pair = await makePair();
    });
    after(() => pair.dispose());

    subjects(() => pair);
    requests(() => pair);
    bucketContract(() => pair);
    leaseContract(() => pair);
    breakContract(() => pair);
    closing(makePair);
  });
}

function subjects(pair: () => BusPair): void {
  test('messages between two buses keep their order and their headers', async () => {
    const { a, b } = pair();
    const headers: (string | undefined)[] = [];
    const seen: string[] = [];
    b.subscribe('c.order', (message) => {
      seen.push(text(message.data));
      headers.push(message.headers?.['traceparent']);
    });
    await b.flush();
    for (let i = 0; i < 500; i++) {
      a.publish('c.order', bytes(`${i}`), i % 2 ? { headers: { traceparent: `t${i}` } } : {});
    }
    await until(() => seen.length === 500, 5_000, 'all messages');
    assert.deepEqual(
      seen,
      Array.from({ length: 500 }, (_, i) => `${i}`),
    );
    assert.equal(headers[0], undefined);
    assert.equal(headers[499], 't499');
  });

  test('a bus hears its own messages; nobody hears after unsubscribe', async () => {
    const { a } = pair();
    const seen: string[] = [];
    const subscription = a.subscribe('c.own', (message) => seen.push(text(message.data)));
    a.publish('c.own', bytes('1'));
    await until(() => seen.length === 1, 2_000, 'own message');
    subscription.unsubscribe();
    a.publish('c.own', bytes('2'));
    await a.flush();
    await sleep(20);
    assert.deepEqual(seen, ['1']);
  });

  test('* stands for one token, > for one or more at the end', async () => {
    const { a, b } = pair();
    const star = await collect(b, 'c.w.*.x');
    const rest = await collect(b, 'c.w.>');
    for (const subject of ['c.w.1.x', 'c.w.1.y', 'c.w.1.x.2', 'c.w', 'c.wx.1.x']) {
      a.publish(subject, bytes(subject));
    }
    await until(() => rest.length === 3, 2_000, 'three below c.w');
    await sleep(20);
    assert.deepEqual(star, ['c.w.1.x']);
    assert.deepEqual(rest, ['c.w.1.x', 'c.w.1.y', 'c.w.1.x.2']);
  });

  test('each message reaches one of a queue group and all others', async () => {
    const { a, b } = pair();
    const one = await collect(a, 'c.q', 'group');
    const two = await collect(b, 'c.q', 'group');
    const other = await collect(b, 'c.q', 'other');
    const all = await collect(b, 'c.q');
    for (let i = 0; i < 200; i++) a.publish('c.q', bytes(`${i}`));
    await until(() => one.length + two.length >= 200 && all.length >= 200, 3_000, 'all delivered');
    assert.deepEqual([one.length + two.length, other.length, all.length], [200, 200, 200]);
    assert.equal(new Set([...one, ...two]).size, 200);
    assert.ok(one.length > 20 && two.length > 20, `shared ${one.length} to ${two.length}`);
  });

  test('a handler that throws or rejects is reported, and the next message still comes', async () => {
    const { a, b, errors } = pair();
    const errorsBefore = b.counters.handlerErrors;
    const seen: string[] = [];
    b.subscribe('c.throw', (message) => {
      seen.push(text(message.data));
      if (seen.length === 1) throw new Error('handler threw');
    });
    const rejecting: () => unknown = async () => {
      await sleep(1);
      throw new Error('handler rejected');
    };
    b.subscribe('c.throw', rejecting);
    await b.flush();
    for (const word of ['1', '2', '3']) a.publish('c.throw', bytes(word));
    await until(() => b.counters.handlerErrors - errorsBefore === 4, 2_000, 'four errors counted');
    assert.deepEqual(seen, ['1', '2', '3']);
    const messages = errors.map((error) => (error as Error).message);
    assert.equal(messages.filter((message) => message === 'handler threw').length, 1);
    assert.equal(messages.filter((message) => message === 'handler rejected').length, 3);
  });

  test('a payload above the limit is refused before it is sent; neighbours do not notice', async () => {
    const { a, b } = pair();
    const seen = await collect(b, 'c.big');
    const over = new Uint8Array(a.maxPayloadBytes + 1);
    a.publish('c.big', bytes('before'));
    assert.throws(() => a.publish('c.big', over), code('BUS_TOO_LARGE'));
    await assert.rejects(a.request('c.big', over, { timeoutMs: 500 }), code('BUS_TOO_LARGE'));
    const bucket = await a.bucket('contract_big');
    await assert.rejects(bucket.put('key', over), code('BUS_TOO_LARGE'));
    a.publish('c.big', bytes('after'));
    await until(() => seen.length === 2, 2_000, 'both neighbours');
    assert.deepEqual(seen, ['before', 'after']);
    assert.equal(a.status, 'connected');
    assert.equal(a.counters.reconnects, 0);
  });

  test('a payload of exactly the limit arrives whole', async () => {
    const { a, b } = pair();
    const lengths: number[] = [];
    b.subscribe('c.full', (message) => lengths.push(message.data.length));
    await b.flush();
    a.publish('c.full', new Uint8Array(a.maxPayloadBytes));
    await until(() => lengths.length === 1, 5_000, 'the large message');
    assert.deepEqual(lengths, [a.maxPayloadBytes]);
  });
}

function requests(pair: () => BusPair): void {
  test('what a receiver keeps of a message stays what it was, whatever comes after it', async () => {
    const { a, b } = pair();
    const kept: Uint8Array[] = [];
    b.subscribe('c.kept', (message) => void kept.push(message.data));
    await b.flush();
    const sizes = Array.from({ length: 60 }, (_, at) => (at * 7_919) % 150_000);
    for (const [at, size] of sizes.entries()) a.publish('c.kept', new Uint8Array(size).fill(at));
    await until(() => kept.length === sizes.length, 5_000, 'all delivered');
    for (const [at, data] of kept.entries()) {
      assert.equal(data.length, sizes[at]);
      assert.ok(
        data.every((byte) => byte === at),
        `message ${at} has changed`,
      );
    }
  });

  test('a request gets its own answer, with headers, many at a time', async () => {
    const { a, b } = pair();
    b.subscribe('c.echo', (message) => {
      assert.equal(message.respond(message.data, { kind: message.headers?.['kind'] ?? '' }), true);
    });
    await b.flush();
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => {
        return a.request('c.echo', bytes(`${i}`), { timeoutMs: 2_000, headers: { kind: `k${i}` } });
      }),
    );
    assert.deepEqual(
      answers.map((answer) => `${text(answer.data)} ${answer.headers?.['kind']}`),
      answers.map((_, i) => `${i} k${i}`),
    );
  });

  test('respond answers false for a message that asks nothing', async () => {
    const { a, b } = pair();
    const answered: boolean[] = [];
    b.subscribe('c.tell', (message: BusMessage) => answered.push(message.respond(bytes('x'))));
    await b.flush();
    a.publish('c.tell', bytes('x'));
    await until(() => answered.length === 1, 2_000, 'message');
    assert.deepEqual(answered, [false]);
  });

  test('nobody there: BUS_NO_RESPONDERS at once', async () => {
    const { a } = pair();
    const startMs = performance.now();
    await assert.rejects(
      a.request('c.nobody', bytes('?'), { timeoutMs: 5_000 }),
      code('BUS_NO_RESPONDERS'),
    );
    assert.ok(performance.now() - startMs < 500);
  });

  test('no answer: BUS_TIMEOUT after the limit, and a late answer does no harm', async () => {
    const { a, b } = pair();
    b.subscribe('c.late', (message) => void setTimeout(() => message.respond(bytes('late')), 120));
    await b.flush();
    const startMs = performance.now();
    await assert.rejects(a.request('c.late', bytes('?'), { timeoutMs: 60 }), code('BUS_TIMEOUT'));
    const tookMs = performance.now() - startMs;
    assert.ok(tookMs > 50 && tookMs < 1_000, `${tookMs} ms`);
    await sleep(150);
    assert.equal(a.counters.handlerErrors, 0);
    const late: string[] = [];
    const onLate = ({ data }: BusMessage): void => void late.push(text(data));
    await assert.rejects(a.request('c.late', bytes('?'), { timeoutMs: 60, onLate }));
    await a.request('c.late', bytes('?'), { timeoutMs: 2_000, onLate });
    assert.deepEqual(late, ['late'], 'only the answer to the request that was given up');
  });

  test('abort ends a request with BUS_ABORTED, before and while it waits', async () => {
    const { a, b } = pair();
    b.subscribe('c.silent', () => {});
    await b.flush();
    const controller = new AbortController();
    const options = { timeoutMs: 5_000, signal: controller.signal };
    const waiting = a.request('c.silent', bytes('?'), options);
    setTimeout(() => controller.abort(), 10);
    await assert.rejects(waiting, code('BUS_ABORTED'));
    await assert.rejects(a.request('c.silent', bytes('?'), options), code('BUS_ABORTED'));
  });
}

function closing(makePair: () => Promise<BusPair>): void {
  test('close lets handlers finish, ends requests with BUS_CLOSED and refuses what comes later', async () => {
    const network = await makePair();
    const { a, b } = network;
    let finished = false;
    const slow: () => unknown = async () => {
      await sleep(50);
      finished = true;
    };
    b.subscribe('c.slow', slow);
    b.subscribe('c.none', () => {});
    await b.flush();
    a.publish('c.slow', bytes('x'));
    await a.flush();
    await sleep(20);
    await b.close();
    assert.equal(finished, true);
    assert.equal(b.status, 'closed');
    assert.throws(() => b.publish('c.x', bytes('x')), code('BUS_CLOSED'));
    assert.throws(() => b.subscribe('c.x', () => {}), code('BUS_CLOSED'));
    await assert.rejects(b.request('c.x', bytes('x'), { timeoutMs: 100 }), code('BUS_CLOSED'));
    await assert.rejects(b.bucket('contract_closed'), code('BUS_CLOSED'));
    await b.close();
    a.subscribe('c.open', () => {});
    await a.flush();
    const open = assert.rejects(
      a.request('c.open', bytes('x'), { timeoutMs: 60_000 }),
      code('BUS_CLOSED'),
    );
    await a.close();
    await open;
    await network.dispose();
  });
}
