import { z } from 'zod';
import { decodeFrame, encodeFrame, parse } from './frame.ts';

/** Two words a block: low half, then high half of the 64-bit sequence hash (the layout of a little-endian u64). */
export type HashWords = Uint32Array;

const routeRequestSchema = z.object({
  model: z.string(),
  frontendId: z.string(),
  /** Counts what this frontend process asks for, from 1; a question that is repeated has a number of its own. See `HeldDecisions`. */
  ask: z.int().min(1).optional(),
  promptTokens: z.int().min(1),
  /** Largest number of output tokens that the request may produce. */
  maxTokens: z.int().min(1),
  /** Milliseconds that the frontend will wait for the placement. */
  deadlineMs: z.number().positive(),
  /** Workers that already failed this request. */
  excluded: z.array(z.string()).max(64).optional(),
  /** Ask for this worker only (diagnosis). */
  workerId: z.string().optional(),
  /** Adapter name; only workers that have it may serve the request. */
  lora: z.string().optional(),
  /** True: place it on one worker for the whole request, whatever the mode of disaggregation; a split has failed before. */
  isWhole: z.boolean().optional(),
  /** The prefill worker that still keeps the KV of this prompt: the decode worker that was to fetch it refused the request. */
  kvAt: z.string().optional(),
  traceparent: z.string().optional(),
});
export type RouteRequest = z.infer<typeof routeRequestSchema>;

const routeReplySchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('place'),
    /** Names this booking in every `life` event. Unique over all routers. */
    decisionId: z.string(),
    routerId: z.string(),
    workerId: z.string(),
    /** Prompt tokens that the router expects the worker to find in its KV cache. */
    expectedCachedTokens: z.int().min(0),
    /** Predicted time to the first token, when the policy predicts one. */
    predictedTtftMs: z.number().optional(),
    /** Instead of `prefill`: the KV that this worker keeps, as the request said, is what `workerId` fetches. */
    kvAt: z.string().optional(),
    /** The prompt goes to this worker first, and its KV from there to `workerId`. A booking of its own. */
    prefill: z
      .object({
        decisionId: z.string(),
        workerId: z.string(),
        expectedCachedTokens: z.int().min(0),
        /** Predicted until the prefill is done, and for the way of its KV. */
        predictedPrefillMs: z.number().optional(),
        predictedTransferMs: z.number().optional(),
        /** What to do when the prefill or the transfer fails: prefill at `workerId`, or fail the request. */
        onFailure: z.enum(['prefill-locally', 'fail']),
      })
      .optional(),
  }),
  z.object({
    kind: z.literal('reject'),
    code: z.enum([
      /** No worker of the model is there. */
      'ROUTER_NO_WORKERS',
      /** As many requests wait for a worker as the router lets wait. */
      'ROUTER_QUEUE_FULL',
      /** No worker became free while the request could wait. */
      'ROUTER_DEADLINE',
      /** Workers of the model have leases, and none gave a sign of life while the request could wait. */
      'ROUTER_WORKERS_SILENT',
      /** No worker can ever hold the request: its context or its cache is too small. */
      'ROUTER_NO_CAPACITY',
      /** The mode of disaggregation is strict and no pair of workers can serve the request. */
      'ROUTER_NO_PAIR',
      /** The question breaks the contract. */
      'ROUTER_BAD_REQUEST',
    ]),
    message: z.string(),
    retryAfterMs: z.number().optional(),
  }),
]);
export type RouteReply = z.infer<typeof routeReplySchema>;

export function encodeRouteRequest(request: RouteRequest, hashes: HashWords): Uint8Array {
  return encodeFrame(request, hashes);
}

export function decodeRouteRequest(bytes: Uint8Array): {
  request: RouteRequest;
  hashes: HashWords;
} {
  const frame = decodeFrame(bytes);
  return { request: parse(routeRequestSchema, frame.header), hashes: frame.words };
}

export function encodeRouteReply(reply: RouteReply): Uint8Array {
  return encodeFrame(reply);
}

export function decodeRouteReply(bytes: Uint8Array): RouteReply {
  return parse(routeReplySchema, decodeFrame(bytes).header);
}
