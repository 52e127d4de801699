import type { HostFinding } from '@busbar/engine';
import type { LinkRecord } from '@busbar/protocol';
import { z } from 'zod';
import type { Cluster } from '../cluster.ts';
import type { NatsInfo } from '../nats/info.ts';
import type { StackView } from '../stack-view.ts';

/** Body of `/ready` on an admin port. */
export const readinessSchema = z.object({
  status: z.enum(['ready', 'degraded', 'unready']),
  checks: z.array(
    z.object({
      name: z.string(),
      ok: z.boolean(),
      detail: z.string(),
      isDegraded: z.boolean().optional(),
    }),
  ),
});
export type ReadinessBody = z.infer<typeof readinessSchema>;

/** What a router's admin port tells of one worker on `/workers`. */
const routerWorkerSchema = z.object({
  workerId: z.string(),
  truth: z.enum(['events', 'approximate', 'load-only']),
  reason: z.string(),
  indexedBlocks: z.number(),
  wantedBlocks: z.number().optional(),
  expectedCachedTokensTotal: z.number(),
  reportedCachedTokensTotal: z.number(),
});
export const routerWorkersSchema = z.array(routerWorkerSchema);
export type RouterWorker = z.infer<typeof routerWorkerSchema>;

/** What a router's admin port tells of one pair of workers on `/links`. */
const routerLinkSchema = z.object({
  prefillWorkerId: z.string(),
  decodeWorkerId: z.string(),
  suspectUntilMs: z.number().optional(),
});
export const routerLinksSchema = z.array(routerLinkSchema);
export type RouterLink = z.infer<typeof routerLinkSchema>;

/** The same prompt sent twice or more through a frontend. */
export interface Probe {
  promptTokens: number;
  /** Cached tokens that each answer reported; the first was sent to a cold cache. */
  cachedTokens: number[];
  /** Time to the first token of each, at this client. */
  ttftMs: number[];
}

/** What an engine that is started on this machine would meet. */
export interface HostView {
  findings: readonly HostFinding[];
  /** A model was named, so that its download locks could be looked for. */
  hasModel: boolean;
  /** CUDA of the engine and of the driver, in words; absent when no engine was named. */
  build?: string;
}

/** Everything that the checks look at, gathered once. Judging it is pure. */
export interface Facts {
  namespace: string;
  natsUrl: string;
  policy: string | undefined;
  /** As `busbar up` was told; undefined for stacks that were started otherwise. */
  disaggregation: { mode: string; isStrict: boolean } | undefined;
  nats: NatsInfo | { error: string };
  stack: StackView;
  /** Undefined when the bus cannot be used. Loads are from before the probe. */
  cluster: Cluster | undefined;
  /** By process id; `undefined` as a value when the admin port did not answer. */
  readiness: ReadonlyMap<string, ReadinessBody | undefined>;
  /** By router id. */
  routerWorkers: ReadonlyMap<string, readonly RouterWorker[]>;
  /** By router id. */
  routerLinks: ReadonlyMap<string, readonly RouterLink[]>;
  probe: Probe | { error: string } | undefined;
  /** KV batches that were heard on the bus during the probe, by worker. */
  heardBatches: ReadonlyMap<string, number>;
  /** `storedBlocksTotal` of each worker after the probe. */
  storedAfter: ReadonlyMap<string, number>;
  /** What decode workers measured of the ways into them. */
  links: readonly LinkRecord[];
  /** Undefined when it could not be looked at. */
  host: HostView | undefined;
  openFilesMax: number | undefined;
  /** What took so long that it was given up. */
  givenUp: readonly string[];
}
