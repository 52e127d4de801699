import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { describe, test } from 'node:test';
import { until } from '../until.testing.ts';
import { type FetchOptions, type FetchResult, fetchBlocks } from './fetch-blocks.ts';
import { hashesOf, honestParts, OneStaged, withPeer, withServer } from './testing.ts';
import { MAGIC, STATUS, writeHead } from './wire.ts';

const HASHES = hashesOf(3);
const BLOCK_BYTES = 100_000;

function fetch(
  endpoint: string,
  more: Partial<FetchOptions> = {},
  signal = new AbortController().signal,
): Promise<FetchResult> {
  const what = { transferId: 't', fromBlock: 0, hashes: HASHES, blockBytes: BLOCK_BYTES };
  return fetchBlocks({ endpoint, ...what, timeoutMs: 10_000, stallMs: 5_000, ...more }, signal);
}

/** A peer that answers the request with these bytes, and closes unless it is to hang. */
function replying(parts: Uint8Array[], hangs = false): (socket: Socket) => void {
  return (socket) => {
    socket.once('data', () => {
      const bytes = Buffer.concat(parts);
      if (hangs) socket.write(bytes);
      else socket.end(bytes);
    });
  };
}

describe('a fetch', () => {
  test('brings every block from the first that is wanted, in any size, and says so to the other side', async () => {
    for (const blockBytes of [1, 15, 16, 17, 65_536, 65_537, 1_835_008]) {
      for (const fromBlock of [0, 2]) {
        const staged = new OneStaged(HASHES, blockBytes);
        await withServer(staged, async ({ endpoint }) => {
          const result = await fetch(endpoint, { blockBytes, fromBlock });
          assert.equal(result.error, undefined);
          assert.equal(result.bytes, (3 - fromBlock) * blockBytes);
          await until('the confirmation', () => staged.ends.length > 0);
          assert.deepEqual(staged.ends, ['received']);
        });
      }
    }
  });

  test('is right about what an honest server sends, in whatever pieces', async () => {
    const bytes = Buffer.concat(honestParts(HASHES, BLOCK_BYTES));
    const onSocket = (socket: Socket): void => {
      socket.once('data', () => {
        void (async () => {
          for (let at = 0, size = 1; at < bytes.length; at += size, size = (size * 7 + 3) % 9_973) {
            socket.write(bytes.subarray(at, at + size));
            if (at < 200) await new Promise((resolve) => setImmediate(resolve));
          }
        })();
      });
    };
    await withPeer(onSocket, async (endpoint) => {
      assert.deepEqual((await fetch(endpoint)).error, undefined);
    });
  });

  test('ends at once when it is given up', async () => {
    await withPeer(
      replying(honestParts(HASHES, BLOCK_BYTES).slice(0, 5), true),
      async (endpoint) => {
        const abort = new AbortController();
        const result = fetch(endpoint, {}, abort.signal);
        setTimeout(() => abort.abort(), 20);
        const { error, ms } = await result;
        assert.equal(error?.code, 'TRANSFER_CANCELLED');
        assert.ok(ms < 2_000);
        const before = await fetch(endpoint, {}, abort.signal);
        assert.equal(before.error?.code, 'TRANSFER_CANCELLED');
      },
    );
  });
});

describe('a fetch fails, and says why, when', () => {
  const cases: [
    what: string,
    code: string,
    reason: RegExp,
    parts: (honest: Buffer[]) => Uint8Array[],
  ][] = [
    ['the first bit of a block is wrong', 'CORRUPT', /contents of block 0/, flip(2, 0)],
    ['a bit in the middle is wrong', 'CORRUPT', /contents of block 1/, flip(5, 70_000)],
    ['a digest is wrong', 'CORRUPT', /digest of block 2/, flip(9, 3)],
    ['a hash is wrong', 'CORRUPT', /block 1 is of another prompt/, flip(4, 8)],
    ['a length is wrong', 'CORRUPT', /block 0 has \d+ bytes/, flip(1, 4)],
    [
      'a block comes twice',
      'CORRUPT',
      /block 0 came in the place of 1/,
      (p) => [...p.slice(0, 4), ...p.slice(1)],
    ],
    [
      'a block is left out',
      'CORRUPT',
      /block 2 came in the place of 1/,
      (p) => [...p.slice(0, 4), ...p.slice(7)],
    ],
    ['more comes than was asked for', 'CORRUPT', /more came/, (p) => [...p, Buffer.of(1)]],
    [
      'fewer blocks are offered',
      'CORRUPT',
      /3 blocks of 100000 bytes were asked for, 2 of/,
      () => [writeHead([MAGIC, STATUS.fetch, 2, BLOCK_BYTES])],
    ],
    [
      'the answer is to a probe',
      'CORRUPT',
      /another question/,
      () => [writeHead([MAGIC, STATUS.probe, 2, 0])],
    ],
    [
      'something else answers',
      'REFUSED',
      /no transfer server/,
      () => [Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')],
    ],
    ['it closes at once', 'BROKEN', /closed after 0 blocks/, () => []],
    ['it closes between blocks', 'BROKEN', /closed after 2 blocks/, (p) => p.slice(0, 7)],
    [
      'it closes within a block',
      'BROKEN',
      /closed after 1 blocks/,
      (p) => [...p.slice(0, 5), p[5]!.subarray(0, 99)],
    ],
    [
      'it closes before the last digest',
      'BROKEN',
      /closed after 2 blocks/,
      (p) => [...p.slice(0, 9), p[9]!.subarray(0, 15)],
    ],
  ];
  for (const [what, code, reason, parts] of cases) {
    test(what, () =>
      withPeer(replying(parts(honestParts(HASHES, BLOCK_BYTES))), async (endpoint) => {
        const { error } = await fetch(endpoint);
        assert.equal(error?.code, `TRANSFER_${code}`);
        assert.match(error?.message ?? '', reason);
        assert.match(error?.message ?? '', /127\.0\.0\.1:/);
      }),
    );
  }

  test('nobody listens, or there is no such address', async () => {
    for (const endpoint of ['127.0.0.1:1', 'nowhere', 'host:99999']) {
      assert.equal((await fetch(endpoint)).error?.code, 'TRANSFER_UNREACHABLE', endpoint);
    }
  });

  test('nothing moves for a while', async () => {
    await withPeer(
      replying(honestParts(HASHES, BLOCK_BYTES).slice(0, 4), true),
      async (endpoint) => {
        const { error, bytes } = await fetch(endpoint, { stallMs: 60 });
        assert.equal(error?.code, 'TRANSFER_TIMEOUT');
        assert.equal(bytes, BLOCK_BYTES, 'what was found right counts');
      },
    );
  });

  test('it drips on and on', async () => {
    const bytes = Buffer.concat(honestParts(HASHES, BLOCK_BYTES));
    const drip = (socket: Socket): void => {
      let at = 0;
      const timer = setInterval(() => socket.write(bytes.subarray(at, ++at)), 5);
      socket.on('close', () => clearInterval(timer));
    };
    await withPeer(drip, async (endpoint) => {
      const { error } = await fetch(endpoint, { timeoutMs: 150 });
      assert.equal(error?.code, 'TRANSFER_TIMEOUT');
      assert.match(error?.message ?? '', /not complete within 150 ms/);
    });
  });
});

/** Turns one bit of part `part`. */
function flip(part: number, at: number): (honest: Buffer[]) => Buffer[] {
  return (honest) => {
    honest[part]![at]! ^= 1;
    return honest;
  };
}
