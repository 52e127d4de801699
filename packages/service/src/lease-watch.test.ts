import assert from 'node:assert/strict';
import { afterEach, beforeEach, mock, suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { messageOf } from '@busbar/base';
import { type Bucket, type BucketChange, MemoryNetwork } from '@busbar/bus';
import { limit, ProtocolError } from '@busbar/protocol';
import { LeaseWatch, type LeaseWatchOptions } from './lease-watch.ts';

const GRACE_MS = limit('leaseGraceMs');
const TTL_MS = 3_000;

/** `<owner>/<what it says>`; anything else cannot be read. */
function decode(value: Uint8Array): string {
  const text = Buffer.from(value).toString();
  if (!text.includes('/')) throw new ProtocolError('PROTOCOL_BAD_FRAME', `not "${text}"`);
  return text;
}

function isSameOwner(before: string, now: string): boolean {
  return before.split('/')[0] === now.split('/')[0];
}

suite('LeaseWatch', () => {
  let network: MemoryNetwork;
  let bucket: Bucket;
  /** What the listener heard since it was last asked. */
  let heard: string[];
  const news = async (): Promise<string[]> => {
    for (let i = 0; i < 5; i++) await turn();
    return heard.splice(0);
  };
  const put = (key: string, text: string): Promise<number> => bucket.put(key, Buffer.from(text));
  const watch = async (
    options: Partial<LeaseWatchOptions<string>> = {},
    source?: Pick<Bucket, 'watch'>,
  ) => {
    const made = new LeaseWatch<string>({
      decode,
      isSameOwner,
      listener: {
        arrived: (key, value) => heard.push(`+${key} ${value}`),
        changed: (key, value, before) => heard.push(`=${key} ${before} > ${value}`),
        left: (key, last, reason) => heard.push(`-${key} ${last} ${reason}`),
      },
      onProblem: (error, key) => heard.push(`!${key} ${messageOf(error)}`),
      ...options,
    });
    await made.open(source ?? (await network.connect().bucket('leases')));
    return made;
  };

  beforeEach(async () => {
    mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
    network = new MemoryNetwork();
    bucket = await network.connect().bucket('leases');
    heard = [];
  });
  afterEach(() => mock.timers.reset());

  test('tells arrivals, changes and ends in their order, of the keys that it covers', async () => {
    await put('decode.a', '1/starting');
    const leases = await watch({ under: ['decode'] });
    await leases.listed();
    assert.deepEqual(await news(), ['+decode.a 1/starting']);
    await put('decode.a', '1/ready');
    await put('router.r', '1/ready');
    await put('decode.b', '7/ready');
    assert.deepEqual(await news(), ['=decode.a 1/starting > 1/ready', '+decode.b 7/ready']);
    await bucket.delete('decode.a');
    assert.deepEqual(await news(), ['-decode.a 1/ready expired']);
    assert.deepEqual([...leases.values()], ['7/ready']);
    leases.stop();
    await bucket.delete('decode.b');
    assert.deepEqual(await news(), []);
  });

  test('tells another owner of a key as one that left and one that arrived, also during the grace', async () => {
    await watch({ mayReturn: () => true });
    await put('a', '1/ready');
    await put('a', '2/starting');
    assert.deepEqual(await news(), ['+a 1/ready', '-a 1/ready replaced', '+a 2/starting']);
    await bucket.delete('a');
    await put('a', '3/ready');
    assert.deepEqual(await news(), ['-a 2/starting replaced', '+a 3/ready']);
    mock.timers.tick(GRACE_MS);
    assert.deepEqual(await news(), []);
  });

  test('waits for an owner that may return, and not for one that said goodbye', async () => {
    const leases = await watch({ mayReturn: (last) => !last.endsWith('/draining') });
    await put('a', '1/ready');
    await put('b', '1/draining');
    await news();
    await bucket.delete('a');
    await bucket.delete('b');
    assert.deepEqual(await news(), ['-b 1/draining expired']);
    mock.timers.tick(GRACE_MS - 1);
    await put('a', '1/ready');
    assert.deepEqual(await news(), ['=a 1/ready > 1/ready']);
    mock.timers.tick(GRACE_MS);
    assert.deepEqual(await news(), []);
    await bucket.delete('a');
    await news();
    assert.deepEqual([...leases.values()], ['1/ready'], 'it has not left yet');
    mock.timers.tick(GRACE_MS);
    assert.deepEqual(await news(), ['-a 1/ready expired']);
  });

  test('after an outage tells what it lists no more as ended, and what comes again as no arrival', async () => {
    const dying = network.connect();
    const lease = { ttlMs: TTL_MS, renewMs: 1_000 };
    await (await dying.bucket('leases')).lease('dead', Buffer.from('1/ready'), lease);
    await bucket.lease('living', Buffer.from('1/ready'), lease);
    await put('kept', '1/ready');
    await watch({ mayReturn: () => true });
    assert.deepEqual((await news()).length, 3);
    await dying.close();
    network.disconnect();
    mock.timers.tick(TTL_MS);
    network.reconnect();
    assert.deepEqual((await news()).toSorted(), [
      '=kept 1/ready > 1/ready',
      '=living 1/ready > 1/ready',
    ]);
    mock.timers.tick(GRACE_MS);
    assert.deepEqual(await news(), ['-dead 1/ready expired']);
  });

  test('takes what a list leaves out as ended, also when no end of it was told', async () => {
    let tell: (change: BucketChange) => void = () => {};
    const listing: Pick<Bucket, 'watch'> = {
      watch: (handler) => {
        tell = handler;
        return Promise.resolve({ unsubscribe: () => {} });
      },
    };
    await watch({}, listing);
    for (const key of ['a', 'b']) {
      tell({ kind: 'put', key, value: Buffer.from('1/ready'), revision: 1 });
    }
    tell({ kind: 'snapshot', keys: new Set(['b']) });
    assert.deepEqual(await news(), ['+a 1/ready', '+b 1/ready', '-a 1/ready expired']);
  });

  test('takes a value that cannot be read as none, and tells of it each time', async () => {
    await put('c', 'junk');
    await watch({ mayReturn: (last) => last.startsWith('1') });
    await put('a', '1/ready');
    await put('b', '2/ready');
    assert.equal((await news())[0], '!c not "junk"');
    await put('a', 'junk');
    await put('b', 'junk');
    assert.deepEqual(await news(), ['!a not "junk"', '!b not "junk"', '-b 2/ready expired']);
    mock.timers.tick(GRACE_MS);
    assert.deepEqual(await news(), ['-a 1/ready expired']);
    await put('a', '1/ready');
    assert.deepEqual(await news(), ['+a 1/ready']);
  });

  test('goes on when a listener throws: in a list of ends, and behind the grace', async () => {
    const fail = (what: string) => (key: string) => {
      heard.push(`${what} ${key}`);
      throw new Error('a fault');
    };
    const listener = { arrived: fail('+'), changed: fail('='), left: fail('-') };
    await watch({
      listener,
      mayReturn: (last) => last.endsWith('/graced'),
      onProblem: (_, key) => fail('!')(key),
    });
    for (const key of ['a', 'b']) await put(key, '1/ready');
    await put('g', '1/graced');
    assert.deepEqual(await news(), ['+ a', '! a', '+ b', '! b', '+ g', '! g']);
    network.disconnect();
    network.reconnect();
    assert.deepEqual(await news(), ['= a', '! a', '= b', '! b', '= g', '! g']);
    for (const key of ['a', 'b', 'g']) await bucket.delete(key);
    mock.timers.tick(GRACE_MS);
    assert.deepEqual(await news(), ['- a', '! a', '- b', '! b']);
    mock.timers.tick(GRACE_MS);
    assert.deepEqual(await news(), ['- g', '! g']);
  });
});
