import { z } from 'zod';
import { checkVersion, copyWords, ProtocolError, parse, parseJson } from './frame.ts';
import { PROTOCOL_VERSION } from './names.ts';
import { type TransferParams, transferParamsSchema } from './transfer.ts';

/** Why a stream ended. `none` while it runs. The order is the wire value. */
export const FINISH_REASONS = ['none', 'stop', 'length', 'cancelled', 'error'] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

/** What one engine step produced for one stream. */
export interface StreamDelta {
  streamId: number;
  /** Output tokens of this stream before this delta; a receiver that expects another number has lost a message. */
  position: number;
  tokens: Uint32Array;
  finish: FinishReason;
  /** Once in a stream, with its first or its last delta: prompt tokens the engine found in its KV cache. */
  cachedTokens?: number;
  /** With `finish: "error"`. */
  error?: { code: string; message: string; retryable: boolean };
  /** With the end of a prefill leg: how to fetch the KV. */
  transfer?: TransferParams;
}

/** One message: everything that one engine step produced for one frontend. */
export interface TokenBatch {
  /** Counts the batches of this worker process to this frontend from 1; a jump means that batches were lost. */
  sequence: number;
  deltas: StreamDelta[];
}

const HEAD_WORDS = 5;
const ROW_WORDS = 4;
const NO_VALUE = 0xffff_ffff;
const encoder = new TextEncoder();

/**
 * Layout in little-endian u32 words: version, sequence, rows, token words, trailer bytes; then one row of four words for
 * each delta (stream id, position, token count + 65536 × finish, cached tokens or 2^32-1); then all token ids; then the
 * errors and transfer parameters of the rows as JSON by stream id, if there are any.
 */
export function encodeTokenBatch(batch: TokenBatch): Uint8Array {
  const { deltas } = batch;
  let tokenWords = 0;
  let extras: Record<string, z.infer<typeof extraSchema>> | undefined;
  for (const delta of deltas) {
    tokenWords += delta.tokens.length;
    if (delta.error !== undefined || delta.transfer !== undefined) {
      extras ??= {};
      extras[delta.streamId] = { error: delta.error, transfer: delta.transfer };
    }
  }
  const trailer = extras === undefined ? undefined : encoder.encode(JSON.stringify(extras));
  const words = new Uint32Array(HEAD_WORDS + deltas.length * ROW_WORDS + tokenWords);
  words[0] = PROTOCOL_VERSION;
  words[1] = batch.sequence;
  words[2] = deltas.length;
  words[3] = tokenWords;
  words[4] = trailer?.length ?? 0;
  let row = HEAD_WORDS;
  let at = HEAD_WORDS + deltas.length * ROW_WORDS;
  for (const delta of deltas) {
    words[row] = delta.streamId;
    words[row + 1] = delta.position;
    words[row + 2] = delta.tokens.length | (FINISH_REASONS.indexOf(delta.finish) << 16);
    words[row + 3] = delta.cachedTokens ?? NO_VALUE;
    row += ROW_WORDS;
    words.set(delta.tokens, at);
    at += delta.tokens.length;
  }
  const bytes = new Uint8Array(words.buffer);
  if (trailer === undefined) return bytes;
  const whole = new Uint8Array(bytes.length + trailer.length);
  whole.set(bytes);
  whole.set(trailer, bytes.length);
  return whole;
}

/** Reverses `encodeTokenBatch`. Throws ProtocolError on anything else. */
export function decodeTokenBatch(bytes: Uint8Array): TokenBatch {
  if (bytes.length < HEAD_WORDS * 4) {
    throw new ProtocolError('PROTOCOL_BAD_FRAME', 'token batch too short');
  }
  const words = copyWords(bytes, 0, bytes.length >> 2);
  checkVersion(words[0]!);
  const rows = words[2]!;
  const tokenWords = words[3]!;
  const trailerBytes = words[4]!;
  const bodyBytes = (HEAD_WORDS + rows * ROW_WORDS + tokenWords) * 4;
  if (bodyBytes + trailerBytes !== bytes.length) {
    throw new ProtocolError('PROTOCOL_BAD_FRAME', 'token batch lengths do not agree');
  }
  const deltas = readRows(words, rows);
  if (trailerBytes > 0) attachExtras(deltas, bytes.subarray(bodyBytes));
  return { sequence: words[1]!, deltas };
}

function readRows(words: Uint32Array, rows: number): StreamDelta[] {
  const deltas: StreamDelta[] = [];
  let at = HEAD_WORDS + rows * ROW_WORDS;
  for (let i = 0, row = HEAD_WORDS; i < rows; i++, row += ROW_WORDS) {
    const count = words[row + 2]! & 0xffff;
    const finish = FINISH_REASONS[words[row + 2]! >>> 16];
    if (finish === undefined || at + count > words.length) {
      throw new ProtocolError('PROTOCOL_BAD_FRAME', 'token batch row out of range');
    }
    const delta: StreamDelta = {
      streamId: words[row]!,
      position: words[row + 1]!,
      tokens: words.subarray(at, at + count),
      finish,
    };
    if (words[row + 3] !== NO_VALUE) delta.cachedTokens = words[row + 3]!;
    deltas.push(delta);
    at += count;
  }
  return deltas;
}

const extraSchema = z.object({
  error: z.object({ code: z.string(), message: z.string(), retryable: z.boolean() }).optional(),
  transfer: transferParamsSchema.optional(),
});
const extrasSchema = z.record(z.string(), extraSchema);

function attachExtras(deltas: StreamDelta[], trailer: Uint8Array): void {
  const extras = parse(extrasSchema, parseJson(trailer));
  for (const delta of deltas) {
    const { error, transfer } = extras[delta.streamId] ?? {};
    if (error !== undefined) delta.error = error;
    if (transfer !== undefined) delta.transfer = transfer;
  }
}
