import { z } from 'zod';
import { parse, parseJson } from './frame.ts';
import { limit } from './limits.ts';

/** Ways in which the KV of a prompt goes from a prefill worker to a decode worker. */
export const TRANSFER_PROTOCOLS = ['nixl', 'mooncake', 'tcp'] as const;
export type TransferProtocol = (typeof TRANSFER_PROTOCOLS)[number];

/** `host:port`, the host perhaps an IPv6 address in brackets. */
const endpointSchema = z.string().regex(/^(\[[0-9a-fA-F:.%]+\]|[^\s:/]+):\d{1,5}$/);

/** How a worker exchanges KV with others. Two workers make a pair only when `pairRefusal` finds nothing against it. */
export const transferInfoSchema = z.object({
  protocol: z.enum(TRANSFER_PROTOCOLS),
  /** What must be equal on both sides, by name: engine version, model path, KV layout, data type, connector version. */
  revision: z.record(z.string().max(64), z.string().max(512)),
  /** What one token of the model occupies in the cache, over all layers. */
  kvBytesPerToken: z.int().min(1).max(1_000_000_000),
  /** TCP address that answers bandwidth probes, and for `tcp` serves the blocks. */
  endpoint: endpointSchema.optional(),
  /** Name of the engine among those that exchange KV. */
  engineId: z.string().max(256).optional(),
  /** For `mooncake`: URL of the bootstrap server. */
  bootstrapAddr: z.string().max(512).optional(),
});
export type TransferInfo = z.infer<typeof transferInfoSchema>;

const blockIds = z.array(z.int().min(0)).max(1_000_000);

/** What vLLM's NixlConnector answers to a prefill. Fields that are not named here pass verbatim. */
const nixlParamsSchema = z.looseObject({
  do_remote_prefill: z.literal(true),
  do_remote_decode: z.literal(false),
  /** One list for each cache group; a flat list up to vLLM 0.17. */
  remote_block_ids: z.union([z.array(blockIds).min(1).max(64), blockIds]),
  remote_engine_id: z.string().min(1).max(256),
  /** From vLLM 0.14. A decode engine of those versions dies when it is missing. */
  remote_request_id: z.string().min(1).max(512).optional(),
  remote_host: z.string().min(1).max(256),
  remote_port: z.int().min(1).max(65_535),
});

/** What vLLM's MooncakeConnector wants of the decode leg; nothing comes back from its prefill. */
const mooncakeParamsSchema = z.looseObject({
  do_remote_prefill: z.literal(true),
  do_remote_decode: z.literal(false),
  remote_bootstrap_addr: z.string().min(1).max(512),
  remote_engine_id: z.string().min(1).max(256),
  transfer_id: z.string().min(1).max(256),
});

const tcpParamsSchema = z.object({
  transferId: z.string().min(1).max(256),
  endpoint: endpointSchema,
  /** Full and partial blocks of the prompt, in order. */
  blocks: z.int().min(1).max(1_000_000),
  blockBytes: z.int().min(1).max(limit('kvBlockBytes')),
});

/** How to fetch the KV of one prefilled prompt: made by the prefill worker, passed on as it is, used by the decode worker. */
export const transferParamsSchema = z.discriminatedUnion('protocol', [
  z.object({ protocol: z.literal('nixl'), params: nixlParamsSchema }),
  z.object({ protocol: z.literal('mooncake'), params: mooncakeParamsSchema }),
  z.object({ protocol: z.literal('tcp'), params: tcpParamsSchema }),
]);
export type TransferParams = z.infer<typeof transferParamsSchema>;

/** Of which prefill the KV comes, and how long it surely waits there. */
export const kvSourceSchema = z.object({
  prefillWorkerId: z.string(),
  transfer: transferParamsSchema,
  /** Milliseconds from now in which the fetch must have begun; behind it the blocks may hold another request. */
  validForMs: z.number().min(0),
});
export type KvSource = z.infer<typeof kvSourceSchema>;

/**
 * What a decode worker has measured of one way into it. Value in bucket `links` under `linkKey`, as JSON. Sums run from the start
 * of the decode worker's process.
 */
const linkRecordSchema = z.object({
  protocol: z.int(),
  prefillWorkerId: z.string(),
  decodeWorkerId: z.string(),
  transferProtocol: z.enum(TRANSFER_PROTOCOLS),
  transfers: z.int().min(0),
  failures: z.int().min(0),
  bytesTotal: z.number().min(0),
  /** Time in which at least one transfer ran on this link. */
  busyMsTotal: z.number().min(0),
  /** Throughput of the link lately, over all transfers that shared it; 0 when nothing was measured. */
  bytesPerMs: z.number().min(0),
  /** Time that a transfer takes besides its bytes, lately. */
  latencyMs: z.number().min(0),
  /** What `bytesPerMs` rests on. */
  source: z.enum(['none', 'probe', 'transfers']),
  lastFailure: z.string().max(512).optional(),
  /**
   * KV came over it. Where engines move KV by themselves no request is split over a link before: the first transfer between two of
   * them sets up the connection, which takes seconds.
   */
  isProven: z.boolean().optional(),
  updatedAt: z.string(),
});
export type LinkRecord = z.infer<typeof linkRecordSchema>;

/** Key of a link in bucket `links`. */
export function linkKey(prefillWorkerId: string, decodeWorkerId: string): string {
  return `${prefillWorkerId}.${decodeWorkerId}`;
}

const textEncoder = new TextEncoder();

export function encodeLinkRecord(record: LinkRecord): Uint8Array {
  return textEncoder.encode(JSON.stringify(record));
}

export function decodeLinkRecord(bytes: Uint8Array): LinkRecord {
  return parse(linkRecordSchema, parseJson(bytes));
}

/** Bytes of the parameters as JSON, as they go over the bus; at most the limit `transferParamsBytes`. */
export function transferParamsBytes(transfer: TransferParams): number {
  return textEncoder.encode(JSON.stringify(transfer)).length;
}

/** Throws ProtocolError unless `value` is complete: an engine that is given half of it may hang or die. */
export function parseTransferParams(value: unknown): TransferParams {
  return parse(transferParamsSchema, value);
}
