import { limit, type RouteRequest } from '@busbar/protocol';
import type { Candidates } from './candidates.ts';
import type { WorkerRow } from './worker-row.ts';

const IN_FLIGHT = limit('workerInFlight');

/** Why a worker cannot take a request: the first two for ever, the others for now. */
export type Refusal =
  | 'too-long'
  | 'no-adapter'
  | 'excluded'
  | 'draining'
  | 'silent'
  | 'syncing'
  | 'full';

/** Whether a worker may get requests at all right now. */
export function isAvailable(row: WorkerRow, nowMs: number, silenceMs: number): boolean {
  return row.isReady && !row.isDraining && nowMs - row.heardMs <= silenceMs;
}

/** Why this worker cannot take this request now; undefined when it can. */
export function refusalOf(
  row: WorkerRow,
  request: RouteRequest,
  nowMs: number,
  silenceMs: number,
): Refusal | undefined {
  if (request.promptTokens >= row.info.contextTokens) return 'too-long';
  if (request.promptTokens > row.capacityBlocks * row.info.blockSize) return 'too-long';
  if (request.lora !== undefined && row.info.loras?.includes(request.lora) !== true) {
    return 'no-adapter';
  }
  if (request.excluded?.includes(row.workerId) === true) return 'excluded';
  if (request.workerId !== undefined && request.workerId !== row.workerId) return 'excluded';
  if (row.isDraining) return 'draining';
  if (nowMs - row.heardMs > silenceMs) return 'silent';
  if (!row.isReady) return 'syncing';
  return row.booked.requests >= IN_FLIGHT ? 'full' : undefined;
}

/** Collects the workers that can take the request. Answers why not when there is none: the mildest of the refusals. */
export function collect(
  rows: readonly WorkerRow[],
  request: RouteRequest,
  into: Candidates,
  nowMs: number,
  silenceMs: number,
): Refusal | undefined {
  into.reset();
  let mildest: Refusal | undefined;
  for (const row of rows) {
    const refusal = refusalOf(row, request, nowMs, silenceMs);
    if (refusal === undefined) into.add(row);
    else if (mildest === undefined || SEVERITY[refusal] < SEVERITY[mildest]) mildest = refusal;
  }
  return into.count > 0 ? undefined : mildest;
}

const SEVERITY: Record<Refusal, number> = {
  full: 0,
  syncing: 1,
  silent: 2,
  draining: 3,
  excluded: 4,
  'no-adapter': 5,
  'too-long': 6,
};
