// Reads the recorded messages of vLLM. Only tests import it.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { decodeKvEvents } from './decode.ts';
import type { VllmKvEvent } from './events.ts';

const DIRECTORY = join(import.meta.dirname, '../../../fixtures/vllm/zmq');

const hashSchema = z.union([
  z.int(),
  z.object({ $u64: z.string() }),
  z.object({ $bytes_hex: z.string() }),
]);
/** An event as msgspec reads it, with the fields that matter here. */
const recordedEventSchema = z.object({
  type: z.enum(['BlockStored', 'BlockRemoved', 'AllBlocksCleared']),
  block_hashes: z.array(hashSchema).default([]),
  parent_block_hash: hashSchema.nullish(),
  token_ids: z.array(z.int()).default([]),
  block_size: z.int().default(0),
  lora_name: z.string().nullish(),
  extra_keys: z.array(z.array(z.string()).nullable()).nullish(),
});
export type RecordedEvent = z.infer<typeof recordedEventSchema>;
const indexLineSchema = z.object({ seq: z.int(), events: z.array(recordedEventSchema) });

export function payloadsOf(pattern: string): Uint8Array[] {
  return globSync(pattern, { cwd: DIRECTORY })
    .toSorted()
    .map((file) => new Uint8Array(readFileSync(join(DIRECTORY, file))));
}

export function linesOf(file: string): unknown[] {
  const lines = readFileSync(join(DIRECTORY, file), 'utf8').trim().split('\n');
  return lines.map((line): unknown => JSON.parse(line));
}

/** What Python read from the recording of that name, message by message. */
export function recordedEvents(name: string): RecordedEvent[][] {
  return linesOf(`${name}-index.jsonl`).map((line) => indexLineSchema.parse(line).events);
}

/** A hash of the recording in the form that `decodeKvEvents` gives it. */
export function recordedHash(hash: z.infer<typeof hashSchema>): bigint {
  if (typeof hash === 'number') return BigInt(hash);
  if ('$u64' in hash) return BigInt(hash.$u64);
  return BigInt(`0x${hash.$bytes_hex.slice(-16)}`);
}

export function decoded(payload: Uint8Array): VllmKvEvent[] {
  const result = decodeKvEvents(payload);
  if (!result.ok) throw new Error(result.reason);
  return result.batch.events;
}
