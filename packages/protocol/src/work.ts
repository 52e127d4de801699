import { z } from 'zod';
import { decodeFrame, encodeFrame, ProtocolError, parse } from './frame.ts';
import { kvSourceSchema } from './transfer.ts';

const INT64 = 2 ** 63;

const samplingSchema = z.object({
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  topK: z.int().min(-1).optional(),
  minP: z.number().min(0).max(1).optional(),
  presencePenalty: z.number().min(-2).max(2).optional(),
  frequencyPenalty: z.number().min(-2).max(2).optional(),
  repetitionPenalty: z.number().positive().optional(),
  /** An integer that fits into 64 bits. Above 2^53 it has lost digits, and stays what it is. */
  seed: z.number().refine(Number.isInteger).gt(-INT64).lt(INT64).optional(),
  logitBias: z.record(z.string(), z.number()).optional(),
});
export type Sampling = z.infer<typeof samplingSchema>;

const workHeaderSchema = z.object({
  /** Handed out by the frontend; unique for the life of that frontend process. */
  streamId: z.int().min(1).max(0xffff_ffff),
  frontendId: z.string(),
  decisionId: z.string(),
  model: z.string(),
  promptTokens: z.int().min(1),
  maxTokens: z.int().min(1),
  minTokens: z.int().min(0).optional(),
  ignoreEos: z.boolean().optional(),
  stopTokenIds: z.array(z.int()).max(64).optional(),
  sampling: samplingSchema,
  cacheSalt: z.string().max(512).optional(),
  lora: z.string().max(128).optional(),
  /** Prompts above one message come as `part` of `parts`, in order, each with its own acknowledgement. */
  part: z.int().min(0).optional(),
  parts: z.int().min(1).max(64).optional(),
  traceparent: z.string().max(64).optional(),
  /**
   * The prefill leg of a split request: compute the prompt and one token, keep the KV for a decode worker and answer `transfer` with the
   * end of the stream. A `cancel` of the stream, also after its end, gives the KV up.
   */
  stageKv: z.object({ transferId: z.string().min(1).max(256) }).optional(),
  /** The decode leg of a split request: fetch the KV of the prompt instead of computing it. Comes with the last part. */
  kvSource: kvSourceSchema.optional(),
  /** Asked by a decode worker to prove a link, for no client: it is counted neither as a request nor as a transfer. */
  isWarmUp: z.boolean().optional(),
});
export type WorkHeader = z.infer<typeof workHeaderSchema>;

const workAckSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('accepted') }),
  z.object({
    kind: z.literal('refused'),
    code: z.enum([
      /** The worker is stopping. */
      'WORKER_DRAINING',
      /** As many requests run and wait in the worker as it takes. */
      'WORKER_FULL',
      /** The work breaks the contract. */
      'WORKER_BAD_REQUEST',
      /** Prompt and answer do not fit into the context or the cache. */
      'WORKER_TOO_LONG',
      /** This worker does not have the adapter that the request names. */
      'WORKER_NO_MODEL',
      /** The engine failed. */
      'WORKER_FAULT',
      /** This worker does not do this kind of work: whole requests on a prefill worker, say, or KV of another protocol. */
      'WORKER_WRONG_KIND',
      /** The KV that a prefill worker kept can no longer be fetched. */
      'WORKER_KV_LOST',
    ]),
    message: z.string(),
    /** True when another worker may well take the same request. */
    retryable: z.boolean(),
  }),
]);
export type WorkAck = z.infer<typeof workAckSchema>;

export function encodeWork(header: WorkHeader, tokens: Uint32Array): Uint8Array {
  return encodeFrame(header, tokens);
}

export function decodeWork(bytes: Uint8Array): { header: WorkHeader; tokens: Uint32Array } {
  const frame = decodeFrame(bytes);
  return { header: parse(workHeaderSchema, frame.header), tokens: frame.words };
}

export function encodeWorkAck(ack: WorkAck): Uint8Array {
  return encodeFrame(ack);
}

export function decodeWorkAck(bytes: Uint8Array): WorkAck {
  return parse(workAckSchema, decodeFrame(bytes).header);
}

const cancelSchema = z.object({
  frontendId: z.string(),
  /** The streams are over, and the KV that they staged was fetched: it waits no longer. */
  isFetched: z.boolean().optional(),
  /** The answer is to say how far the streams of this frontend have come. Without stream ids. */
  asksStreams: z.boolean().optional(),
});

/** Stop these streams of this frontend, or with `isFetched` count off what they staged; unknown ids are ignored. */
export function encodeCancel(
  frontendId: string,
  streamIds: number[],
  isFetched = false,
): Uint8Array {
  return encodeFrame(
    isFetched ? { frontendId, isFetched } : { frontendId },
    Uint32Array.from(streamIds),
  );
}

export function decodeCancel(bytes: Uint8Array): {
  frontendId: string;
  streamIds: Uint32Array;
  isFetched: boolean;
  asksStreams: boolean;
} {
  const frame = decodeFrame(bytes);
  const { frontendId, isFetched = false, asksStreams = false } = parse(cancelSchema, frame.header);
  return { frontendId, streamIds: frame.words, isFetched, asksStreams };
}

/** Sent on the cancel subject, which is what a worker answers at once. Workers of an earlier version answer with nothing. */
export function encodeStreamsQuestion(frontendId: string): Uint8Array {
  return encodeFrame({ frontendId, asksStreams: true });
}

const positionsSchema = z.object({ kind: z.literal('streams') });

/** The answer: of each stream that the worker runs for the frontend, the output tokens that it has sent. */
export function encodeStreamPositions(positions: ReadonlyMap<number, number>): Uint8Array {
  return encodeFrame({ kind: 'streams' }, Uint32Array.from([...positions].flat()));
}

/** Tokens sent, by stream id. */
export function decodeStreamPositions(bytes: Uint8Array): Map<number, number> {
  const { header, words } = decodeFrame(bytes);
  parse(positionsSchema, header);
  if (words.length % 2 !== 0) {
    throw new ProtocolError('PROTOCOL_BAD_FRAME', 'a stream without a position');
  }
  const positions = new Map<number, number>();
  for (let at = 0; at < words.length; at += 2) positions.set(words[at]!, words[at + 1]!);
  return positions;
}
