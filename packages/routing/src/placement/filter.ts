import { limit, type RouteRequest } from '@busbar/protocol';
import type { WorkerColumns } from '../workers/worker-columns.ts';
import type { WorkerPool } from '../workers/worker-pool.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import type { Candidates } from './candidates.ts';

const IN_FLIGHT = limit('workerInFlight');

/** Why a worker cannot take a request. `too-long` stays so, and `no-adapter` until somebody loads it; the others may change soon. */
export type Refusal =
  | 'full'
  | 'syncing'
  | 'silent'
  | 'draining'
  | 'excluded'
  | 'no-adapter'
  | 'too-long'
  /** A split is a must, and no prefill worker can take part now, none can with these workers, or there is none. */
  | 'prefill-unavailable'
  | 'no-pair'
  | 'no-prefill';

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
 * Collects the workers that can take the request, in the order of the pool. When there is none, answers the refusal that is
 * nearest to being lifted.
 */
export function collect(
  pool: WorkerPool,
  request: RouteRequest,
  into: Candidates,
  nowMs: number,
  silenceMs: number,
): Refusal | undefined {
  const { openMs, promptLimit, requests } = into.workers;
  const { promptTokens } = request;
  const { slots, rows } = pool;
  const isPlain = hasNoWishes(request);
  const sinceMs = nowMs - silenceMs;
  into.reserve(slots.length);
  if (isPlain && canAllTake(slots, promptTokens, sinceMs, into.workers)) {
    into.slots.set(slots);
    into.count = slots.length;
    return undefined;
  }
  let count = 0;
  for (let at = 0; at < slots.length; at++) {
    const slot = slots[at]!;
    if (openMs[slot]! < sinceMs) continue;
    if (promptTokens > promptLimit[slot]! || requests[slot]! >= IN_FLIGHT) continue;
    if (isPlain || wishRefusal(rows[at]!, request) === undefined) into.slots[count++] = slot;
  }
  into.count = count;
  if (count > 0) return undefined;
  const refusals = rows.map((row) => refusalOf(row, request, into, sinceMs));
  return ORDER.find((refusal) => refusals.includes(refusal));
}

/** Whether no worker is in any way out of question: the usual case, told without a branch for each. */
function canAllTake(
  slots: Int32Array,
  promptTokens: number,
  sinceMs: number,
  { openMs, promptLimit, requests }: WorkerColumns,
): boolean {
  let oldestMs = Number.POSITIVE_INFINITY;
  let shortest = Number.POSITIVE_INFINITY;
  let most = 0;
  for (let at = 0; at < slots.length; at++) {
    const slot = slots[at]!;
    oldestMs = Math.min(oldestMs, openMs[slot]!);
    shortest = Math.min(shortest, promptLimit[slot]!);
    most = Math.max(most, requests[slot]!);
  }
  return oldestMs >= sinceMs && shortest >= promptTokens && most < IN_FLIGHT;
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
