import { fork } from 'node:child_process';
import { createCipheriv, createHash } from 'node:crypto';
import { once } from 'node:events';
import { crc32 } from 'node:zlib';
import { parseTransferParams } from '@busbar/protocol';
import { z } from 'zod';
import { KV_BYTES_PER_TOKEN, PROMPT_TOKENS, startEngine, submit } from './kv-engine.ts';
import { repeat, report, timeMs } from './measure.ts';

/**
 * KV of mock engines over loopback, from a process that has staged it to this one: rate of one fetch and of four at once, CPU of both
 * sides. And what digests cost that could stand in the place of GMAC.
 */
const REPEATS = 9;
const BYTES = PROMPT_TOKENS * KV_BYTES_PER_TOKEN;
const stagedSchema = z.object({ key: z.number(), transfer: z.unknown() });
const cpuSchema = z.object({ cpuMicros: z.number() });

const server = fork(new URL('transfer-server.ts', import.meta.url), { stdio: 'inherit' });
await once(server, 'message');
const open = new Map<number, () => void>();
const engine = await startEngine('decode', {
  staged: () => {},
  began: () => {},
  ended: (key, { outcome, reason }) => {
    if (outcome !== 'ok') throw new Error(`the fetch ended with ${outcome}: ${reason}`);
    open.get(key)?.();
  },
});

let keys = 0;
for (const atOnce of [1, 4]) {
  const rates: number[] = [];
  const sent: number[] = [];
  const received: number[] = [];
  for (let at = 0; at <= REPEATS; at++) {
    const { ms, senderSec, receiverSec } = await fetchSome(atOnce);
    // The first finds buffers and code cold.
    if (at === 0) continue;
    rates.push((atOnce * BYTES) / ms / 1e6);
    sent.push(senderSec / atOnce);
    received.push(receiverSec / atOnce);
  }
  const name = atOnce === 1 ? 'one fetch' : `${atOnce} fetches at once`;
  report(`${name} over loopback, all together`, 'GB/s', rates);
  report(`${name}: sender, each ${Math.round(BYTES / 1e6)} MB`, 's CPU', sent);
  report(`${name}: receiver, each ${Math.round(BYTES / 1e6)} MB`, 's CPU', received);
}
await engine.stop();
server.disconnect();
measureDigests();

async function fetchSome(
  count: number,
): Promise<{ ms: number; senderSec: number; receiverSec: number }> {
  const transfers = [];
  for (let at = 0; at < count; at++) {
    const key = ++keys;
    server.send(key);
    const [message] = await once(server, 'message');
    const { transfer } = stagedSchema.parse(message);
    transfers.push({ key, transfer: parseTransferParams(transfer) });
  }
  const senderBefore = await senderMicros();
  const before = process.cpuUsage();
  const startMs = performance.now();
  const done = transfers.map(
    ({ key }) => new Promise<void>((resolve) => void open.set(key, resolve)),
  );
  for (const { key, transfer } of transfers) {
    submit(engine, key, { kvSource: { prefillWorkerId: 'p', transfer, validForMs: 20_000 } });
  }
  await Promise.all(done);
  const ms = performance.now() - startMs;
  const { user, system } = process.cpuUsage(before);
  const senderSec = ((await senderMicros()) - senderBefore) / 1e6;
  return { ms, senderSec, receiverSec: (user + system) / 1e6 };
}

async function senderMicros(): Promise<number> {
  server.send('cpu');
  const [message] = await once(server, 'message');
  return cpuSchema.parse(message).cpuMicros;
}

function measureDigests(): void {
  const slice = Buffer.alloc(65_536, 7);
  const slices = 2_000;
  const digests: Record<string, () => void> = {
    GMAC: () => {
      const cipher = createCipheriv('aes-128-gcm', Buffer.alloc(16), Buffer.alloc(12));
      for (let at = 0; at < slices; at++) cipher.setAAD(slice);
      cipher.final();
    },
    'CRC-32': () => {
      for (let at = 0, sum = 0; at < slices; at++) sum = crc32(slice, sum);
    },
    'SHA-1': () => hash('sha1'),
    'SHA-256': () => hash('sha256'),
  };
  const hash = (name: string): void => {
    const sum = createHash(name);
    for (let at = 0; at < slices; at++) sum.update(slice);
    sum.digest();
  };
  for (const [name, run] of Object.entries(digests)) {
    const gigabytes = (slices * slice.length) / 1e9;
    report(
      name,
      'GB/s',
      repeat(REPEATS, () => gigabytes / (timeMs(run) / 1_000)),
    );
  }
}
