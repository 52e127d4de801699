import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { until } from '../until.testing.ts';
import { fetchBlocks } from './fetch-blocks.ts';
import { probeLink } from './link-probe.ts';
import { hashesOf, OneStaged, withPeer, withServer } from './testing.ts';
import {
  HEAD_BYTES,
  MAGIC,
  MAX_PROBE_BYTES,
  REQUEST,
  readHead,
  STATUS,
  writeHead,
} from './wire.ts';

/** A connection that keeps what it reads. */
class Raw {
  readonly socket: Socket;
  isClosed = false;
  #bytes: Buffer = Buffer.alloc(0);

  constructor(endpoint: string) {
    this.socket = connect({ host: '127.0.0.1', port: Number(endpoint.split(':')[1]) });
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.isClosed = true;
    });
    this.socket.on('data', (chunk) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
    });
  }

  get bytes(): Buffer {
    return this.#bytes;
  }

  /** The text of a refusal, once the connection is closed. */
  async refusal(): Promise<string> {
    await until('the end', () => this.isClosed);
    const [magic, status, length] = readHead(this.#bytes);
    assert.deepEqual([magic, status], [MAGIC, STATUS.refused]);
    assert.equal(this.#bytes.length, HEAD_BYTES + length);
    return this.#bytes.toString('utf8', HEAD_BYTES);
  }
}

function fetchRequest(transferId: string, fromBlock = 0): Buffer {
  const id = Buffer.from(transferId);
  return Buffer.concat([writeHead([MAGIC, REQUEST.fetch, fromBlock, id.length]), id]);
}

const SMALL = (): OneStaged => new OneStaged(hashesOf(2), 1000);

describe('the server of transfers', () => {
  test('refuses with a reason what it cannot serve', () =>
    withServer(SMALL(), async ({ endpoint }) => {
      const ask = async (request: Uint8Array): Promise<string> => {
        const raw = new Raw(endpoint);
        raw.socket.write(request);
        return await raw.refusal();
      };
      assert.match(await ask(fetchRequest('other')), /no such KV/);
      assert.match(await ask(fetchRequest('t', 2)), /2 blocks, block 2 is not among them/);
      assert.match(
        await ask(Buffer.from('GET / HTTP/1.1\r\n\r\n')),
        /does not follow the protocol/,
      );
      assert.match(await ask(writeHead([MAGIC, 9, 0, 0])), /does not follow/);
      assert.match(await ask(writeHead([MAGIC, REQUEST.fetch, 0, 1_000_000])), /does not follow/);
      assert.match(await ask(writeHead([MAGIC, REQUEST.received, 2, 0])), /nothing was sent/);
      assert.match(await ask(writeHead([MAGIC, REQUEST.probe, 0, 0])), /a probe has 1 to/);
      const tooMuch = writeHead([MAGIC, REQUEST.probe, MAX_PROBE_BYTES + 1, 0]);
      assert.match(await ask(tooMuch), /a probe has 1 to/);
    }));

  test('without staged prompts it answers probes only', () =>
    withServer(undefined, async ({ endpoint }) => {
      const raw = new Raw(endpoint);
      raw.socket.write(fetchRequest('t'));
      assert.match(await raw.refusal(), /stages nothing/);
      const { bytesPerMs, latencyMs } = await probeLink(endpoint, { bytes: 1e6, timeoutMs: 5_000 });
      assert.ok(bytesPerMs > 0 && latencyMs > 0);
    }));

  test('takes a fetch for received only when all of it is confirmed', async () => {
    for (const [last, outcome] of [
      [undefined, 'broken'],
      [writeHead([MAGIC, REQUEST.received, 1, 0]), 'broken'],
      [writeHead([MAGIC, REQUEST.received, 2, 0]), 'received'],
    ] as const) {
      const staged = SMALL();
      await withServer(staged, async ({ endpoint }) => {
        const raw = new Raw(endpoint);
        raw.socket.write(fetchRequest('t'));
        const all = HEAD_BYTES + 2 * (1000 + 2 * HEAD_BYTES);
        await until('all blocks', () => raw.bytes.length === all);
        assert.deepEqual(staged.ends, []);
        if (last === undefined) raw.socket.destroy();
        else raw.socket.write(last);
        await until('the end', () => staged.ends.length > 0);
        assert.deepEqual(staged.ends, [outcome]);
        await until('the close', () => raw.isClosed);
      });
    }
  });

  test('a fetch that breaks off is broken once, and another may follow', async () => {
    const staged = new OneStaged(hashesOf(40), 1_835_008);
    await withServer(staged, async ({ endpoint }) => {
      const raw = new Raw(endpoint);
      raw.socket.write(fetchRequest('t'));
      await until('some bytes', () => raw.bytes.length > 0);
      raw.socket.destroy();
      await until('the end', () => staged.ends.length > 0);
      const what = { transferId: 't', fromBlock: 0, hashes: staged.hashes, blockBytes: 1_835_008 };
      const { signal } = new AbortController();
      const result = await fetchBlocks({ endpoint, ...what, timeoutMs: 30_000 }, signal);
      assert.equal(result.error, undefined);
      await until('the confirmation', () => staged.ends.length > 1);
      assert.deepEqual(staged.ends, ['broken', 'received']);
    });
  });

  test('a reader that stands still holds up nobody, and little memory', async () => {
    const staged = new OneStaged(hashesOf(600), 1_835_008);
    await withServer(staged, async ({ endpoint }) => {
      const raw = new Raw(endpoint);
      raw.socket.pause();
      raw.socket.write(fetchRequest('t'));
      const before = process.memoryUsage().rss;
      const beside = await probeLink(endpoint, { bytes: 2e6, timeoutMs: 10_000 });
      assert.ok(beside.bytesPerMs > 0);
      assert.ok(
        process.memoryUsage().rss - before < 200e6,
        'a gigabyte waits, and is not in memory',
      );
      assert.deepEqual(staged.ends, []);
      raw.socket.destroy();
      await until('the end', () => staged.ends.length > 0);
    });
  });

  test('what is given up while it is sent breaks off', async () => {
    const staged = new OneStaged(hashesOf(40), 1_835_008);
    await withServer(staged, async ({ endpoint }) => {
      const raw = new Raw(endpoint);
      raw.socket.write(fetchRequest('t'));
      await until('some bytes', () => raw.bytes.length > 0);
      staged.close();
      await until('the end', () => raw.isClosed && staged.ends.length > 0);
      assert.deepEqual(staged.ends, ['broken']);
    });
  });

  test('connections that say nothing hold up nobody; close ends them all', () =>
    withServer(SMALL(), async (server) => {
      const idle = Array.from({ length: 80 }, () => new Raw(server.endpoint));
      await until('80 connections', () => idle.every(({ socket }) => socket.readyState === 'open'));
      await probe(server.endpoint);
      const raw = new Raw(server.endpoint);
      raw.socket.write(fetchRequest('t'));
      await until('the blocks', () => raw.bytes.length > 2_000);
      await server.close();
      await until('all closed', () => idle.every(({ isClosed }) => isClosed));
    }));

  test('tells more connections than it has room for to come later, probes too', () =>
    withServer(
      SMALL(),
      async ({ endpoint }) => {
        const idle = new Raw(endpoint);
        await until('the connection', () => idle.socket.readyState === 'open');
        await assert.rejects(probe(endpoint), { code: 'TRANSFER_BUSY' });
        const raw = new Raw(endpoint);
        raw.socket.write(fetchRequest('t'));
        await until('the end', () => raw.isClosed);
        assert.deepEqual([...readHead(raw.bytes)], [MAGIC, STATUS.busy, 0, 0]);
      },
      { maxConnections: 1 },
    ));

  test('rejects when the port is taken', () =>
    withServer(SMALL(), async ({ endpoint }) => {
      const port = Number(endpoint.split(':')[1]);
      const { createTransferServer } = await import('./transfer-server.ts');
      await assert.rejects(createTransferServer({ host: '127.0.0.1', port }), /EADDRINUSE/);
    }));
});

function probe(endpoint: string, timeoutMs = 5_000): Promise<unknown> {
  return probeLink(endpoint, { bytes: 1000, timeoutMs });
}

describe('a probe', () => {
  test('measures a rate that a slow sender explains', async () => {
    // 20 pieces of 50 kB, 5 ms apart: 10 kB/ms at most, less on a busy machine.
    const slow = (socket: Socket): void => {
      let left = 20;
      socket.once('data', () => {
        socket.write(writeHead([MAGIC, STATUS.probe, 1e6, 0]));
        const timer = setInterval(() => {
          socket.write(Buffer.alloc(50_000));
          if (--left === 0) clearInterval(timer);
        }, 5);
      });
    };
    await withPeer(slow, async (endpoint) => {
      const { bytesPerMs } = await probeLink(endpoint, { bytes: 1e6, timeoutMs: 10_000 });
      assert.ok(bytesPerMs > 100 && bytesPerMs < 15_000, `${bytesPerMs}`);
    });
  });

  test('fails with a reason and within its limit', async () => {
    await assert.rejects(probe('127.0.0.1:1'), { code: 'TRANSFER_UNREACHABLE' });
    await assert.rejects(probe('nowhere'), { code: 'TRANSFER_UNREACHABLE' });
    const http = (socket: Socket): void => {
      socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    };
    await withPeer(http, (endpoint) =>
      assert.rejects(probe(endpoint), { code: 'TRANSFER_REFUSED' }),
    );
    await withPeer(
      (socket) => socket.end(),
      (endpoint) => assert.rejects(probe(endpoint), { code: 'TRANSFER_BROKEN' }),
    );
    await withPeer(
      () => {},
      (endpoint) => assert.rejects(probe(endpoint, 50), { code: 'TRANSFER_TIMEOUT' }),
    );
  });

  test('leaves the event loop its turns', () =>
    withServer(undefined, async ({ endpoint }) => {
      let turns = 0;
      let isOver = false;
      const turn = (): void => {
        turns++;
        if (!isOver) setImmediate(turn);
      };
      setImmediate(turn);
      await probeLink(endpoint, { bytes: MAX_PROBE_BYTES, timeoutMs: 20_000 });
      isOver = true;
      assert.ok(turns > 20, `${turns} turns in ${MAX_PROBE_BYTES} bytes`);
    }));
});
