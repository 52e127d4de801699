import { setTimeout as sleep } from 'node:timers/promises';
import { connectNats } from '@busbar/bus';
import {
  createSubjects,
  decodeKvBatch,
  decodeTokenBatch,
  decodeWorkerLoad,
  encodeKvBatch,
  encodeTokenBatch,
  encodeWorkerLoad,
} from '@busbar/protocol';
import { startNatsServer } from '@busbar/testkit';
import { cpuMicros } from '../machine.ts';

/**
 * What one message costs nats-server and the process that reads it, in CPU time: the numbers that docs/guides/scale.md
 * multiplies. Publisher and reader share this process, so the reader's part is what is left after a run without reader.
 */
const subjects = createSubjects('bench');
const REPEATS = 3;

const load = encodeWorkerLoad({
  epoch: 1,
  state: 'ready',
  running: 12,
  waiting: 1,
  waitingPrefillTokens: 500,
  freeBlocks: 100,
  activeBlocks: 300,
  kvBlocks: 926,
  decodeStepMs: 13.2,
  prefillTokensPerMs: 21.5,
  kvSequence: 1000,
  storedBlocksTotal: 50_000,
});
const tokens = encodeTokenBatch({
  sequence: 1,
  deltas: Array.from({ length: 32 }, (_, i) => ({
    streamId: i + 1,
    position: 5,
    tokens: Uint32Array.of(i),
    finish: 'none' as const,
  })),
});
const kv = encodeKvBatch({
  epoch: 1,
  sequence: 1,
  dpRank: 0,
  tier: 'device',
  changes: [{ kind: 'stored', hashes: Uint32Array.from({ length: 200 }, (_, i) => i) }],
});

const nats = await startNatsServer();
const reader = await connectNats({ url: nats.url, name: 'reader' });
const writer = await connectNats({ url: nats.url, name: 'writer' });

await measure('heartbeat (load)', subjects.load('w'), load, decodeWorkerLoad, 100_000);
await measure(
  'token batch of 32 streams',
  subjects.tokens('f', 'w'),
  tokens,
  decodeTokenBatch,
  100_000,
);
await measure('kv batch of 100 blocks', subjects.kv('w'), kv, decodeKvBatch, 100_000);
await measureLeases(5_000);

await reader.close();
await writer.close();
await nats.stop();

async function measure(
  name: string,
  subject: string,
  data: Uint8Array,
  decode: (bytes: Uint8Array) => unknown,
  count: number,
): Promise<void> {
  const without = await run(subject, data, undefined, count);
  const once = await run(subject, data, decode, count);
  emit(
    `${name}: nats-server, publish`,
    without.map((sample) => sample.server),
  );
  emit(
    `${name}: nats-server, each delivery`,
    once.map((sample, i) => sample.server - without[i]!.server),
  );
  emit(
    `${name}: writer`,
    without.map((sample) => sample.own),
  );
  emit(
    `${name}: reader with decoding`,
    once.map((sample, i) => sample.own - without[i]!.own),
  );
}

/** A renewal is a write of the same value to a bucket; each watch that covers the key hears it and tells nobody. */
async function measureLeases(count: number): Promise<void> {
  const watches = 10;
  const value = new Uint8Array(560);
  const [mine, theirs] = [await writer.bucket('leases'), await reader.bucket('leases')];
  const renew = async (): Promise<{ server: number; own: number }> => {
    const serverBefore = cpuMicros([nats.pid]);
    const ownBefore = process.cpuUsage();
    for (let sent = 0; sent < count; sent += 50) {
      // A key that is written again before its watches heard it would be told once: 1,000 keys take turns.
      const puts = Array.from({ length: 50 }, (_, at) =>
        mine.put(`decode.w${(sent + at) % 1_000}`, value),
      );
      await Promise.all(puts);
    }
    // What the server has not yet delivered is in order before the answers to this.
    await theirs.put('decode.other', value);
    await reader.flush();
    const own = process.cpuUsage(ownBefore);
    return {
      server: (cpuMicros([nats.pid]) - serverBefore) / count,
      own: (own.user + own.system) / count,
    };
  };
  await renew();
  const alone: { server: number; own: number }[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) alone.push(await renew());
  const open = await Promise.all(
    Array.from({ length: watches }, () => theirs.watch(() => {}, { under: ['decode'] })),
  );
  const watched: { server: number; own: number }[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) watched.push(await renew());
  for (const watch of open) watch.unsubscribe();
  emit(
    'lease renewal: nats-server, write',
    alone.map((sample) => sample.server),
  );
  emit(
    'lease renewal: nats-server, each watch',
    watched.map((sample, i) => (sample.server - alone[i]!.server) / watches),
  );
  emit(
    'lease renewal: reader, each watch',
    watched.map((sample, i) => (sample.own - alone[i]!.own) / watches),
  );
}

async function run(
  subject: string,
  data: Uint8Array,
  decode: ((bytes: Uint8Array) => unknown) | undefined,
  count: number,
): Promise<{ server: number; own: number }[]> {
  const samples: { server: number; own: number }[] = [];
  for (let repeat = 0; repeat < REPEATS; repeat++) {
    let seen = 0;
    const subscription =
      decode &&
      reader.subscribe(subject, (message) => {
        decode(message.data);
        seen++;
      });
    await reader.flush();
    const serverBefore = cpuMicros([nats.pid]);
    const ownBefore = process.cpuUsage();
    for (let sent = 0; sent < count; sent++) {
      writer.publish(subject, data);
      if (sent % 100 === 99) await writer.flush();
    }
    await reader.flush();
    const isAllSeen = (): boolean => decode === undefined || seen >= count;
    while (!isAllSeen()) await sleep(5);
    const own = process.cpuUsage(ownBefore);
    samples.push({
      server: (cpuMicros([nats.pid]) - serverBefore) / count,
      own: (own.user + own.system) / count,
    });
    subscription?.unsubscribe();
  }
  return samples;
}

function emit(name: string, values: number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  const round = (value: number): number => Math.round(value * 100) / 100;
  process.stdout.write(
    `${JSON.stringify({ name, unit: 'us', min: round(sorted[0]!), median: round(sorted[REPEATS >> 1]!), runs: REPEATS })}\n`,
  );
}
