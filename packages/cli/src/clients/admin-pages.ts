import { z } from 'zod';

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
  suspectForMs: z.number().optional(),
});
export const routerLinksSchema = z.array(routerLinkSchema);
export type RouterLink = z.infer<typeof routerLinkSchema>;
