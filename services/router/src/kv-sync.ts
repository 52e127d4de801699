import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import {
  decodeKvSyncReply,
  encodeKvSyncRequest,
  type KvSyncReply,
  type Subjects,
} from '@busbar/protocol';
import type { KvSnapshot } from '@busbar/routing';
import { RouterError } from './errors.ts';

const ATTEMPTS = 4;
const BACKOFF_MS = 100;
const PART_TIMEOUT_MS = 1_000;
const MAX_PARTS = 4_096;

/**
 * Fetches the whole block set of a worker, part by part. Tries a few times with growing pauses, since a worker that has just
 * registered may not listen yet. Rejects with the last failure, or when `signal` fires.
 */
export async function fetchSnapshot(
  bus: Bus,
  subjects: Subjects,
  workerId: string,
  signal: AbortSignal,
): Promise<KvSnapshot> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fetchOnce(bus, subjects.kvSync(workerId), signal);
    } catch (error) {
      if (attempt >= ATTEMPTS || signal.aborted) throw error;
      await sleep(BACKOFF_MS * 2 ** (attempt - 1), undefined, { signal });
    }
  }
}

async function fetchOnce(bus: Bus, subject: string, signal: AbortSignal): Promise<KvSnapshot> {
  const ask = async (
    part: number,
    snapshotId?: number,
  ): Promise<{ reply: KvSyncReply; hashes: Uint32Array }> => {
    const request = encodeKvSyncRequest(snapshotId === undefined ? { part } : { part, snapshotId });
    const message = await bus.request(subject, request, { timeoutMs: PART_TIMEOUT_MS, signal });
    return decodeKvSyncReply(message.data);
  };
  const first = await ask(0);
  const { snapshotId, parts, epoch, sequence } = first.reply;
  if (parts > MAX_PARTS)
    throw new RouterError('ROUTER_SNAPSHOT_LOST', `${parts} parts are too many`);
  const snapshot: KvSnapshot = { epoch, sequence, parts: [] };
  for (let part = 0; part < parts; part++) {
    const { reply, hashes } = part === 0 ? first : await ask(part, snapshotId);
    if (reply.expired === true || reply.snapshotId !== snapshotId || reply.epoch !== epoch) {
      throw new RouterError(
        'ROUTER_SNAPSHOT_LOST',
        `part ${part} of ${parts} is not kept any more`,
      );
    }
    if (hashes.length > 0) {
      snapshot.parts.push({ dpRank: reply.dpRank, tier: reply.tier, hashes });
    }
  }
  return snapshot;
}

/** One fetch at a time for each worker. */
export class KvSyncer {
  readonly #fetch: (workerId: string, signal: AbortSignal) => Promise<KvSnapshot>;
  readonly #onDone: (workerId: string, result: KvSnapshot | Error) => void;
  readonly #running = new Map<string, AbortController>();

  constructor(
    fetch: (workerId: string, signal: AbortSignal) => Promise<KvSnapshot>,
    onDone: (workerId: string, result: KvSnapshot | Error) => void,
  ) {
    this.#fetch = fetch;
    this.#onDone = onDone;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Starts a fetch; one that runs for this worker is given up for the new one. */
  start(workerId: string): void {
    this.cancel(workerId);
    const controller = new AbortController();
    this.#running.set(workerId, controller);
    const finish = (result: KvSnapshot | Error): void => {
      if (this.#running.get(workerId) !== controller) return;
      this.#running.delete(workerId);
      this.#onDone(workerId, result);
    };
    this.#fetch(workerId, controller.signal).then(finish, (error: unknown) =>
      finish(error instanceof Error ? error : new Error(messageOf(error))),
    );
  }

  cancel(workerId: string): void {
    this.#running.get(workerId)?.abort();
    this.#running.delete(workerId);
  }

  stop(): void {
    for (const workerId of this.#running.keys()) this.cancel(workerId);
  }
}
