import { limit, type RouteRequest } from '@busbar/protocol';
import type { Candidates } from './candidates.ts';
import type { WorkerRow } from './worker-row.ts';

const IN_FLIGHT = limit('workerInFlight');

/** Why a worker cannot take a request. `too-long` and `no-adapter` stay so; the others may change. */
export type Refusal =
  | 'full'
  | 'syncing'
  | 'silent'
  | 'draining'
  | 'excluded'
  | 'no-adapter'
  | 'too-long';

/** From the nearest to being possible to the farthest. */
const ORDER: readonly Refusal[] = [
  'full',
  'syncing',
  'silent',
  'draining',
  'excluded',
  'no-adapter',
  'too-long',
];

/** Whether a worker may get requests at all right now. */
export function isAvailable(row: WorkerRow, nowMs: number, silenceMs: number): boolean {
  return row.isReady && !row.isDraining && nowMs - row.heardMs <= silenceMs;
}

/**
 * Collects the workers that can take the request. When there is none, answers the refusal that is nearest to being lifted, or
 * undefined when there are no workers at all.
 */
export function collect(
  rows: readonly WorkerRow[],
  request: RouteRequest,
  into: Candidates,
  nowMs: number,
  silenceMs: number,
): Refusal | undefined {
  const { openMs, promptLimit, requests } = into.workers;
  const isPlain = hasNoWishes(request);
  const sinceMs = nowMs - silenceMs;
  into.reset();
  for (const row of rows) {
    const { slot } = row;
    if (openMs[slot]! < sinceMs) continue;
    if (request.promptTokens > promptLimit[slot]! || requests[slot]! >= IN_FLIGHT) continue;
    if (isPlain || wishRefusal(row, request) === undefined) into.add(row);
  }
  if (into.count > 0) return undefined;
  const refusals = rows.map((row) => refusalOf(row, request, into, sinceMs));
  return ORDER.find((refusal) => refusals.includes(refusal));
}

/** Whether every worker that can take one such request can take the other. */
export function hasNoWishes(request: RouteRequest): boolean {
  return (
    request.excluded === undefined && request.workerId === undefined && request.lora === undefined
  );
}

function wishRefusal(row: WorkerRow, request: RouteRequest): Refusal | undefined {
  const { lora, excluded, workerId } = request;
  if (lora !== undefined && row.info.loras?.includes(lora) !== true) return 'no-adapter';
  if (excluded?.includes(row.workerId) === true) return 'excluded';
  return workerId === undefined || workerId === row.workerId ? undefined : 'excluded';
}

function refusalOf(
  row: WorkerRow,
  request: RouteRequest,
  { workers }: Candidates,
  sinceMs: number,
): Refusal {
  if (request.promptTokens > workers.promptLimit[row.slot]!) return 'too-long';
  const wish = wishRefusal(row, request);
  if (wish !== undefined) return wish;
  if (row.isDraining) return 'draining';
  if (row.heardMs < sinceMs) return 'silent';
  return row.isReady ? 'full' : 'syncing';
}
