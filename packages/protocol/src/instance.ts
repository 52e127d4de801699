import { z } from 'zod';
import { decodeFrame, encodeFrame, parse, parseJson } from './frame.ts';
import { transferInfoSchema } from './transfer.ts';

export const ROLES = ['frontend', 'router', 'decode', 'prefill'] as const;
export type Role = (typeof ROLES)[number];

/** What a worker says of itself when it registers. */
const workerInfoSchema = z.object({
  model: z.string(),
  /** `decode` serves whole requests; `prefill` only computes the KV of prompts for decode workers. */
  role: z.enum(['decode', 'prefill']),
  engine: z.string(),
  engineVersion: z.string(),
  blockSize: z.int().min(1).max(4096),
  /** Blocks of the KV cache of one rank. */
  kvBlocks: z.int().min(1),
  dpRanks: z.int().min(1).max(256),
  contextTokens: z.int().min(1),
  maxRunning: z.int().min(1),
  /** Whether the engine is set up to emit KV events. Routers still believe only what they see. */
  kvEvents: z.boolean(),
  /** Prior of the router's cost model until it has learned better: tokens prefilled per millisecond. */
  prefillTokensPerMs: z.number().positive(),
  /** Prior: milliseconds of one decode step with one running sequence. */
  decodeStepMs: z.number().min(0),
  loras: z.array(z.string()).optional(),
  /** Absent: this worker cannot exchange KV. */
  transfer: transferInfoSchema.optional(),
});
export type WorkerInfo = z.infer<typeof workerInfoSchema>;

/** Value of a lease in bucket `instances`, as JSON so that a person can read it. */
const instanceSchema = z.object({
  protocol: z.int(),
  role: z.enum(ROLES),
  id: z.string(),
  /** Other for every start of a process, so that a returning name is not taken for the old one. */
  epoch: z.int().min(0).max(0xffff_ffff),
  pid: z.int(),
  host: z.string(),
  startedAt: z.string(),
  adminUrl: z.string().optional(),
  state: z.enum(['starting', 'ready', 'draining']),
  worker: workerInfoSchema.optional(),
});
export type Instance = z.infer<typeof instanceSchema>;

/** Key of a lease in bucket `instances`. */
export function instanceKey(role: Role, id: string): string {
  return `${role}.${id}`;
}

/** A model as frontends serve it. Value in bucket `models`, as JSON. */
const modelCardSchema = z.object({
  protocol: z.int(),
  name: z.string().min(1).max(128),
  blockSize: z.int().min(1).max(4096),
  contextTokens: z.int().min(1),
  /** Folder with tokenizer.json and tokenizer_config.json; absent means the tokenizer that comes with Busbar. */
  tokenizerPath: z.string().optional(),
  /** SHA-256 of tokenizer.json: a frontend that finds another file refuses the card. */
  tokenizerDigest: z.string().optional(),
  eosTokenIds: z.array(z.int()),
  createdAt: z.string(),
});
export type ModelCard = z.infer<typeof modelCardSchema>;

const stateSchema = z.enum(['ready', 'draining']);

/** Heartbeat of a worker. */
const workerLoadSchema = z.object({
  epoch: z.int().min(0),
  state: stateSchema,
  running: z.int().min(0),
  waiting: z.int().min(0),
  /** Prompt tokens that are accepted and not yet prefilled. */
  waitingPrefillTokens: z.int().min(0),
  /** Blocks that hold nothing reusable and are not in use. */
  freeBlocks: z.int().min(0),
  /** Blocks in use by running sequences. */
  activeBlocks: z.int().min(0),
  kvBlocks: z.int().min(1),
  /** Mean duration of a decode step lately; 0 when there was none. */
  decodeStepMs: z.number().min(0),
  /** Tokens prefilled per millisecond lately; 0 when there was none. */
  prefillTokensPerMs: z.number().min(0),
  /** Prompt tokens of the mean step or prefill that this rate was measured at; absent or 0 when there was none. */
  prefillStepTokens: z.number().min(0).optional(),
  /** Sequence number of the last KV batch of this epoch; tells a router that it missed the newest. */
  kvSequence: z.int().min(0),
  /** Blocks that the engine has made reusable since it started; grows whether or not events are sent. */
  storedBlocksTotal: z.int().min(0),
  /** Blocks that wait to be fetched by a decode worker; part of `activeBlocks`. */
  stagedBlocks: z.int().min(0).optional(),
});
export type WorkerLoad = z.infer<typeof workerLoadSchema>;

/** What an engine says of its load: a heartbeat without what the worker around it adds. */
export interface EngineLoad
  extends Omit<WorkerLoad, 'epoch' | 'state' | 'kvBlocks' | 'kvSequence' | 'stagedBlocks'> {
  /** Blocks that wait to be fetched by a decode worker; part of `activeBlocks`. */
  stagedBlocks: number;
}

export function encodeWorkerLoad(load: WorkerLoad): Uint8Array {
  return encodeFrame(load);
}

export function decodeWorkerLoad(bytes: Uint8Array): WorkerLoad {
  return parse(workerLoadSchema, decodeFrame(bytes).header);
}

const textEncoder = new TextEncoder();

export function encodeInstance(instance: Instance): Uint8Array {
  return textEncoder.encode(JSON.stringify(instance));
}

export function decodeInstance(bytes: Uint8Array): Instance {
  return parse(instanceSchema, parseJson(bytes));
}

export function encodeModelCard(card: ModelCard): Uint8Array {
  return textEncoder.encode(JSON.stringify(card));
}

export function decodeModelCard(bytes: Uint8Array): ModelCard {
  return parse(modelCardSchema, parseJson(bytes));
}
