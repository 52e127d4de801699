/** What a router heard of one worker, for metrics and diagnosis. */
export interface WorkerStats {
  /** Times are on the router's monotonic clock. */
  joinedAtMs: number;
  kvBatches: number;
  /** Undefined when none came yet. */
  lastKvAtMs: number | undefined;
  lastLoadAtMs: number | undefined;
  syncs: Record<'joined' | 'gap' | 'epoch' | 'heartbeat', number>;
  failedSyncs: number;
}

export function newWorkerStats(joinedAtMs: number): WorkerStats {
  return {
    joinedAtMs,
    kvBatches: 0,
    lastKvAtMs: undefined,
    lastLoadAtMs: undefined,
    syncs: { joined: 0, gap: 0, epoch: 0, heartbeat: 0 },
    failedSyncs: 0,
  };
}
