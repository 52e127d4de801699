import { messageOf } from '@busbar/base';
import { limit } from '@busbar/protocol';
import type { SimulationRun } from './simulation.ts';

const MAX_PLACEMENTS = limit('placementAttempts');

/**
 * What must hold at the end of every run, whatever the policy: each request ended exactly once, none failed that had no token yet, no
 * router holds a booking or believes in more blocks than a worker has, no KV is staged, on its way or booked on a link, and every part's
 * own invariants. Answers the violations, none when all is well.
 */
export function checkRun(run: SimulationRun): string[] {
  const violations: string[] = [];
  if (!run.isFinished) violations.push('requests hang');
  run.records.forEach((record, i) => {
    if (record.ends !== 1) violations.push(`request ${i} ended ${record.ends} times`);
    const couldMove =
      record.firstTokenMs === undefined && record.placements < MAX_PLACEMENTS && !record.isGivenUp;
    if (record.outcome === 'failed' && couldMove) {
      violations.push(`request ${i} failed without a token though it could go elsewhere`);
    }
    if (record.cachedTokens >= record.promptTokens) {
      violations.push(`request ${i} computed no prompt token`);
    }
  });
  for (const worker of run.workers) {
    collect(violations, worker.id, () => worker.mocker.checkInvariants());
    const { running, waiting, activeBlocks, stagedBlocks } = worker.mocker.load();
    if (worker.isAlive && stagedBlocks > 0) {
      violations.push(`${worker.id}: ${stagedBlocks} blocks staged`);
    }
    const fetching = worker.links?.running ?? 0;
    if (fetching > 0) violations.push(`${worker.id}: ${fetching} fetches in the account`);
    if (worker.isAlive && running + waiting + activeBlocks > 0) {
      violations.push(`${worker.id} still works: ${running} running, ${activeBlocks} blocks`);
    }
  }
  const moving = run.fabric?.network.running ?? 0;
  if (moving > 0) violations.push(`${moving} transfers run`);
  collect(violations, 'the network', () => run.fabric?.network.checkInvariants());
  const blocks = new Map(run.workers.map(({ id, mocker }) => [id, mocker.blocks().length >> 1]));
  run.routers.forEach((router, i) => {
    collect(violations, `router ${i}`, () => router.checkInvariants());
    for (const view of router.workers(run.endedAtMs)) {
      const name = `router ${i} on ${view.workerId}`;
      if (view.bookedRequests !== 0 || view.bookedPrefillTokens !== 0) {
        violations.push(`${name}: ${view.bookedRequests} bookings left`);
      }
      const held = blocks.get(view.workerId) ?? 0;
      if (view.truth === 'events' && view.indexedBlocks > held) {
        violations.push(`${name}: ${view.indexedBlocks} blocks indexed, ${held} held`);
      }
    }
    for (const { prefillWorkerId, decodeWorkerId, bookedBytes } of router.pairs(run.endedAtMs)) {
      if (bookedBytes === 0) continue;
      const name = `${prefillWorkerId} to ${decodeWorkerId}`;
      violations.push(`router ${i}: ${bookedBytes} bytes booked from ${name}`);
    }
  });
  return violations;
}

function collect(violations: string[], name: string, check: () => void): void {
  try {
    check();
  } catch (error) {
    violations.push(`${name}: ${messageOf(error)}`);
  }
}
