import { z } from 'zod';
import { decodeFrame, encodeFrame, ProtocolError, parse } from './frame.ts';
import type { HashWords } from './route.ts';

/** How a request ended; also the value of the `outcome` label of metrics. */
const OUTCOMES = ['completed', 'cancelled', 'failed', 'rejected'] as const;
export type Outcome = (typeof OUTCOMES)[number];

const bookedSchema = z.object({
  kind: z.literal('booked'),
  decisionId: z.string(),
  routerId: z.string(),
  workerId: z.string(),
  promptTokens: z.int().min(1),
  maxTokens: z.int().min(1),
  expectedCachedTokens: z.int().min(0),
  /** Blocks whose hashes follow in the payload, in the order of the events. */
  blocks: z.int().min(0),
  /** The decode leg of a split request: its worker fetches the prompt's KV and computes nothing of it. */
  isFetched: z.boolean().optional(),
  /** With `isFetched`: the worker that keeps the KV already, so that no prefill leg is booked with this one. */
  kvAt: z.string().optional(),
  /** Of the request that was answered by the decision. */
  ask: z.int().min(1).optional(),
});
const firstTokenSchema = z.object({
  kind: z.literal('firstToken'),
  decisionId: z.string(),
  workerId: z.string(),
  /** What the engine reported; compared with what the router expected. Absent where the engine says it at the end only. */
  cachedTokens: z.int().min(0).optional(),
  /** From placement to first token, measured by the frontend. */
  ttftMs: z.number(),
});
const endedSchema = z.object({
  kind: z.literal('ended'),
  decisionId: z.string(),
  workerId: z.string(),
  outcome: z.enum(OUTCOMES),
  outputTokens: z.int().min(0),
  /** As in `firstToken`, from engines that say it with their last delta; never in both. */
  cachedTokens: z.int().min(0).optional(),
});
const lifeEventSchema = z.discriminatedUnion('kind', [bookedSchema, firstTokenSchema, endedSchema]);
export type LifeEvent = z.infer<typeof lifeEventSchema>;
export type BookedEvent = z.infer<typeof bookedSchema>;

const batchSchema = z.object({
  frontendId: z.string(),
  events: z.array(lifeEventSchema).max(4096),
});

export interface LifeBatch {
  frontendId: string;
  events: LifeEvent[];
  /** One entry for each event; the block hashes of `booked`, empty for the others. */
  hashes: HashWords[];
}

const NONE = new Uint32Array(0);

export function encodeLifeBatch(batch: LifeBatch): Uint8Array {
  let length = 0;
  for (const hashes of batch.hashes) length += hashes.length;
  const words = new Uint32Array(length);
  let at = 0;
  for (const hashes of batch.hashes) {
    words.set(hashes, at);
    at += hashes.length;
  }
  return encodeFrame({ frontendId: batch.frontendId, events: batch.events }, words);
}

export function decodeLifeBatch(bytes: Uint8Array): LifeBatch {
  const frame = decodeFrame(bytes);
  const { frontendId, events } = parse(batchSchema, frame.header);
  let at = 0;
  const hashes = events.map((event) => {
    if (event.kind !== 'booked' || event.blocks === 0) return NONE;
    const end = at + event.blocks * 2;
    if (end > frame.words.length) {
      throw new ProtocolError(
        'PROTOCOL_BAD_FRAME',
        'life batch announces more blocks than it carries',
      );
    }
    const own = frame.words.subarray(at, end);
    at = end;
    return own;
  });
  return { frontendId, events, hashes };
}
