import type { Clock } from '@busbar/base';
import {
  encodeKvSyncReply,
  type KvSyncReply,
  type KvSyncRequest,
  limit,
  type Tier,
} from '@busbar/protocol';

const KEEP_MS = 10_000;
/** A router whose snapshot had to make room is told that it is `expired`, and asks anew. */
const MAX_KEPT = 4;
const HEADER_BYTES = 1_024;

type BlockSet = { dpRank: number; tier: Tier; hashes: Uint32Array };

interface Snapshot {
  id: number;
  sequence: number;
  takenAtMs: number;
  parts: BlockSet[];
}

/**
 * Answers `kvsync`: part 0 takes a snapshot of the block set, the other parts read from it. Snapshots are kept a few seconds and
 * only a few of them; a part of one that is gone is answered `expired`.
 */
export class KvSnapshots {
  readonly #epoch: number;
  readonly #clock: Clock;
  readonly #read: () => { sequence: number; sets: BlockSet[] };
  readonly #wordsPerPart: number;
  #kept: Snapshot[] = [];
  #nextId = 1;

  constructor(options: {
    epoch: number;
    clock: Clock;
    read: () => { sequence: number; sets: BlockSet[] };
    messageBytes?: number;
  }) {
    this.#epoch = options.epoch;
    this.#clock = options.clock;
    this.#read = options.read;
    const bytes = (options.messageBytes ?? limit('messageBytes')) - HEADER_BYTES;
    this.#wordsPerPart = Math.floor(bytes / 8) * 2;
  }

  answer(request: KvSyncRequest): Uint8Array {
    const nowMs = this.#clock.monotonicMs();
    this.#kept = this.#kept.filter((kept) => nowMs - kept.takenAtMs < KEEP_MS);
    const snapshot =
      request.part === 0
        ? this.#take(nowMs)
        : this.#kept.find((kept) => kept.id === request.snapshotId);
    const set = snapshot?.parts[request.part];
    const reply: KvSyncReply = {
      snapshotId: snapshot?.id ?? request.snapshotId ?? 0,
      part: request.part,
      parts: snapshot?.parts.length ?? 1,
      epoch: this.#epoch,
      sequence: snapshot?.sequence ?? 0,
      dpRank: set?.dpRank ?? 0,
      tier: set?.tier ?? 'device',
    };
    if (set === undefined) reply.expired = true;
    return encodeKvSyncReply(reply, set?.hashes ?? new Uint32Array(0));
  }

  #take(nowMs: number): Snapshot {
    const { sequence, sets } = this.#read();
    const parts: BlockSet[] = [];
    for (const { dpRank, tier, hashes } of sets) {
      for (let at = 0; at < hashes.length; at += this.#wordsPerPart) {
        parts.push({ dpRank, tier, hashes: hashes.subarray(at, at + this.#wordsPerPart) });
      }
    }
    if (parts.length === 0) parts.push({ dpRank: 0, tier: 'device', hashes: new Uint32Array(0) });
    const snapshot = { id: this.#nextId++, sequence, takenAtMs: nowMs, parts };
    if (parts.length > 1) this.#kept = [...this.#kept.slice(1 - MAX_KEPT), snapshot];
    return snapshot;
  }
}
