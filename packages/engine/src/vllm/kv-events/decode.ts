import { messageOf } from '@busbar/base';
import type { Tier } from '@busbar/protocol';
import { Decoder } from '@msgpack/msgpack';
import type { EngineHash, StoredEvent, VllmKvBatch, VllmKvEvent } from './events.ts';

/** Positions of the array form of vLLM up to 0.23, counted after the tag. Later releases only added fields at the end. */
const STORED_FIELDS = [
  'block_hashes',
  'parent_block_hash',
  'token_ids',
  'block_size',
  'lora_id',
  'medium',
  'lora_name',
  'extra_keys',
  'group_idx',
  'kv_cache_spec_kind',
] as const;
const REMOVED_FIELDS = ['block_hashes', 'medium', 'group_idx'] as const;

const TIER_OF_MEDIUM = new Map<string, Tier>([
  ['GPU', 'device'],
  ['CPU', 'host'],
  ['STORAGE', 'disk'],
  ['FS', 'disk'],
  ['OBJ', 'disk'],
]);

/** A prompt of a million tokens is one event. More is a broken length, which must not be believed before memory is taken. */
const MAX_ARRAY = 4_194_304;
const MAX_BYTES = 65_536;
const MAX_MAP = 256;
const HASH_BYTES = 8;

const decoder = new Decoder({
  useBigInt64: true,
  maxArrayLength: MAX_ARRAY,
  maxMapLength: MAX_MAP,
  maxStrLength: MAX_BYTES,
  maxBinLength: MAX_BYTES,
  maxExtLength: MAX_BYTES,
});

export type DecodedKvBatch = { ok: true; batch: VllmKvBatch } | { ok: false; reason: string };

type Fields = Readonly<Record<string, unknown>>;

class FrameError extends Error {}

/**
 * Reads the payload of one message of vLLM 0.10 to 0.33: `[time, events, rank]`, each event an array that begins with its type or, from
 * 0.24 on, a map with `type`. Fields that are not known are skipped. Never throws.
 */
export function decodeKvEvents(payload: Uint8Array): DecodedKvBatch {
  try {
    const root = decoder.decode(payload);
    if (!Array.isArray(root) || root.length < 2) throw new FrameError('no batch');
    const events: unknown = root[1];
    return { ok: true, batch: { events: list(events, 'events').map(readEvent) } };
  } catch (error) {
    return { ok: false, reason: messageOf(error) };
  }
}

function readEvent(value: unknown): VllmKvEvent {
  const { type, fields } = fieldsOf(value);
  if (type === 'BlockStored') return readStored(fields);
  if (type === 'BlockRemoved') return readRemoved(fields);
  if (type === 'AllBlocksCleared') return { kind: 'cleared' };
  return { kind: 'unknown', what: `event ${type.slice(0, 40)}` };
}

function fieldsOf(value: unknown): { type: string; fields: Fields } {
  if (Array.isArray(value)) {
    const values: unknown[] = value;
    const type = values[0];
    if (typeof type !== 'string') throw new FrameError('an event without a type');
    const names: readonly string[] = type === 'BlockStored' ? STORED_FIELDS : REMOVED_FIELDS;
    const fields: Record<string, unknown> = {};
    for (const [i, name] of names.entries()) fields[name] = values[i + 1];
    return { type, fields };
  }
  if (!isFields(value)) throw new FrameError('an event of no shape');
  const type = value['type'];
  if (typeof type !== 'string') throw new FrameError('an event without a type');
  return { type, fields: value };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}

function readStored(fields: Fields): VllmKvEvent {
  const tier = tierOf(fields);
  if (tier === undefined) return unknownMedium(fields);
  const parent = fields['parent_block_hash'] ?? undefined;
  const lora = text(fields, 'lora_name');
  const loraId = fields['lora_id'] ?? undefined;
  const event: StoredEvent = {
    kind: 'stored',
    hashes: list(fields['block_hashes'], 'block_hashes').map(hashOf),
    parent: parent === undefined ? undefined : hashOf(parent),
    tokens: tokensOf(fields['token_ids']),
    blockSize: count(fields['block_size'], 'block_size'),
    tier,
    group: group(fields),
    groupKind: text(fields, 'kv_cache_spec_kind'),
    lora,
    hasUnnamedLora: loraId !== undefined && lora === undefined,
    extraKeys: extraKeysOf(fields['extra_keys'] ?? undefined),
  };
  return event;
}

function readRemoved(fields: Fields): VllmKvEvent {
  const tier = tierOf(fields);
  if (tier === undefined) return unknownMedium(fields);
  const hashes = list(fields['block_hashes'], 'block_hashes').map(hashOf);
  return { kind: 'removed', hashes, tier, group: group(fields) };
}

/** Undefined for a memory that is not known; an engine that names none has only one. */
function tierOf(fields: Fields): Tier | undefined {
  const medium = text(fields, 'medium');
  return medium === undefined ? 'device' : TIER_OF_MEDIUM.get(medium.toUpperCase());
}

function unknownMedium(fields: Fields): VllmKvEvent {
  return { kind: 'unknown', what: `medium ${text(fields, 'medium')?.slice(0, 40)}` };
}

function list(value: unknown, name: string): unknown[] {
  if (!Array.isArray(value)) throw new FrameError(`${name} is no list`);
  return value;
}

function hashOf(value: unknown): EngineHash {
  if (typeof value === 'bigint') return BigInt.asUintN(64, value);
  if (typeof value === 'number' && Number.isSafeInteger(value)) {
    return BigInt.asUintN(64, BigInt(value));
  }
  if (value instanceof Uint8Array && value.length >= HASH_BYTES) {
    const view = new DataView(value.buffer, value.byteOffset, value.byteLength);
    return view.getBigUint64(value.length - HASH_BYTES);
  }
  throw new FrameError('a hash that is neither an integer nor bytes');
}

function tokensOf(value: unknown): Uint32Array {
  const values = list(value, 'token_ids');
  const tokens = new Uint32Array(values.length);
  for (let i = 0; i < values.length; i++) tokens[i] = count(values[i], 'a token');
  return tokens;
}

function extraKeysOf(value: unknown): StoredEvent['extraKeys'] {
  if (value === undefined) return undefined;
  return list(value, 'extra_keys').map((keys) => {
    return keys === null || keys === undefined ? undefined : list(keys, 'extra keys');
  });
}

function group(fields: Fields): number | undefined {
  const value = fields['group_idx'] ?? undefined;
  return value === undefined ? undefined : count(value, 'group_idx');
}

function count(value: unknown, name: string): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > 0xffff_ffff) {
    throw new FrameError(`${name} is no count`);
  }
  return value;
}

function text(fields: Fields, name: string): string | undefined {
  const value = fields[name] ?? undefined;
  if (value !== undefined && typeof value !== 'string') throw new FrameError(`${name} is no text`);
  return value;
}
