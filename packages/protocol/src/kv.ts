import { z } from 'zod';
import {
  checkVersion,
  copyWords,
  decodeFrame,
  encodeFrame,
  ProtocolError,
  parse,
} from './frame.ts';
import { PROTOCOL_VERSION } from './names.ts';
import type { HashWords } from './route.ts';

/** Where a block lies: in the accelerator's memory, in the host's, or on disk. The order is the wire value. */
export const TIERS = ['device', 'host', 'disk'] as const;
export type Tier = (typeof TIERS)[number];

/** One change of a worker's KV cache, in the order in which it happened. */
export type KvChange =
  /** These blocks, each the parent of the next, can be reused from now on. */
  | { kind: 'stored'; hashes: HashWords }
  /** These blocks are gone; unknown ones are ignored. */
  | { kind: 'removed'; hashes: HashWords }
  /** Every block of this rank and tier is gone. */
  | { kind: 'cleared' };

export interface KvBatch {
  /** Changes when the worker's process or cache starts anew; sequence numbers begin at 1 again. */
  epoch: number;
  /** Counts the batches of one epoch from 1, over all ranks and tiers. */
  sequence: number;
  /** Data-parallel rank: each owns a KV cache of its own, so `cleared` covers this rank only. */
  dpRank: number;
  tier: Tier;
  changes: KvChange[];
}

const HEAD_WORDS = 6;
const STORED = 1;
const REMOVED = 2;
const CLEARED = 3;

/** Layout in little-endian u32 words: version, epoch, sequence, rank, tier, changes; then per change: kind, blocks, hashes. */
export function encodeKvBatch(batch: KvBatch): Uint8Array {
  let length = HEAD_WORDS;
  for (const change of batch.changes) {
    length += 2 + (change.kind === 'cleared' ? 0 : change.hashes.length);
  }
  const words = new Uint32Array(length);
  words[0] = PROTOCOL_VERSION;
  words[1] = batch.epoch;
  words[2] = batch.sequence;
  words[3] = batch.dpRank;
  words[4] = TIERS.indexOf(batch.tier);
  words[5] = batch.changes.length;
  let at = HEAD_WORDS;
  for (const change of batch.changes) {
    words[at] = change.kind === 'stored' ? STORED : change.kind === 'removed' ? REMOVED : CLEARED;
    if (change.kind !== 'cleared') {
      words[at + 1] = change.hashes.length >> 1;
      words.set(change.hashes, at + 2);
      at += change.hashes.length;
    }
    at += 2;
  }
  return new Uint8Array(words.buffer);
}

/** Reverses `encodeKvBatch`. Throws ProtocolError on anything else. */
export function decodeKvBatch(bytes: Uint8Array): KvBatch {
  if (bytes.length < HEAD_WORDS * 4 || bytes.length % 4 !== 0) {
    throw new ProtocolError('PROTOCOL_BAD_FRAME', 'kv batch length');
  }
  const words = copyWords(bytes, 0, bytes.length >> 2);
  checkVersion(words[0]!);
  const tier = TIERS[words[4]!];
  if (tier === undefined) throw new ProtocolError('PROTOCOL_BAD_FRAME', 'kv batch tier');
  const changes: KvChange[] = [];
  let at = HEAD_WORDS;
  for (let i = 0; i < words[5]!; i++) {
    const kind = words[at];
    const end = at + 2 + (words[at + 1] ?? 0) * 2;
    if (kind === undefined || end > words.length) {
      throw new ProtocolError('PROTOCOL_BAD_FRAME', 'kv batch is cut');
    }
    const hashes = words.subarray(at + 2, end);
    if (kind === STORED) changes.push({ kind: 'stored', hashes });
    else if (kind === REMOVED) changes.push({ kind: 'removed', hashes });
    else if (kind === CLEARED) changes.push({ kind: 'cleared' });
    else throw new ProtocolError('PROTOCOL_BAD_FRAME', `kv change of kind ${kind}`);
    at = end;
  }
  return { epoch: words[1]!, sequence: words[2]!, dpRank: words[3]!, tier, changes };
}

/** Splits changes so that each encoded batch stays below `maxBytes`; order is kept. */
export function splitKvChanges(changes: KvChange[], maxBytes: number): KvChange[][] {
  const maxWords = Math.floor(maxBytes / 4) - HEAD_WORDS;
  const batches: KvChange[][] = [];
  let current: KvChange[] = [];
  let used = 0;
  const flush = (): void => {
    if (current.length > 0) batches.push(current);
    current = [];
    used = 0;
  };
  for (const change of changes) {
    let rest = change;
    while (rest.kind !== 'cleared' && used + 2 + rest.hashes.length > maxWords) {
      const fit = Math.max(0, (maxWords - used - 2) & ~1);
      if (fit > 0) current.push({ kind: rest.kind, hashes: rest.hashes.subarray(0, fit) });
      rest = { kind: rest.kind, hashes: rest.hashes.subarray(fit) };
      flush();
    }
    current.push(rest);
    used += 2 + (rest.kind === 'cleared' ? 0 : rest.hashes.length);
    if (used >= maxWords) flush();
  }
  flush();
  return batches;
}

const kvSyncRequestSchema = z.object({
  /** 0 asks for a new snapshot; later parts name the snapshot that part 0 announced. */
  part: z.int().min(0),
  snapshotId: z.int().min(0).optional(),
});
export type KvSyncRequest = z.infer<typeof kvSyncRequestSchema>;

const kvSyncReplySchema = z.object({
  snapshotId: z.int().min(0),
  part: z.int().min(0),
  parts: z.int().min(1),
  epoch: z.int().min(0),
  /** The snapshot holds every batch up to and with this one. */
  sequence: z.int().min(0),
  /** Rank and tier of the blocks in this part. */
  dpRank: z.int().min(0),
  tier: z.enum(TIERS),
  /** Set when the snapshot is not kept any more: begin again with part 0. */
  expired: z.boolean().optional(),
});
export type KvSyncReply = z.infer<typeof kvSyncReplySchema>;

export function encodeKvSyncRequest(request: KvSyncRequest): Uint8Array {
  return encodeFrame(request);
}

export function decodeKvSyncRequest(bytes: Uint8Array): KvSyncRequest {
  return parse(kvSyncRequestSchema, decodeFrame(bytes).header);
}

export function encodeKvSyncReply(reply: KvSyncReply, hashes: HashWords): Uint8Array {
  return encodeFrame(reply, hashes);
}

export function decodeKvSyncReply(bytes: Uint8Array): { reply: KvSyncReply; hashes: HashWords } {
  const frame = decodeFrame(bytes);
  return { reply: parse(kvSyncReplySchema, frame.header), hashes: frame.words };
}
