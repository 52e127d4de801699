import type { BusStatus } from '@busbar/bus';
import type { Check, Readiness } from './port.ts';

/** Sums up checks: any that fails makes it `unready`, any that is degraded makes it `degraded`. */
export function summarize(
  who: Pick<Readiness, 'role' | 'id' | 'state'>,
  checks: Check[],
): Readiness {
  const status = checks.some((check) => !check.ok)
    ? 'unready'
    : checks.some((check) => check.isDegraded === true)
      ? 'degraded'
      : 'ready';
  return { status, role: who.role, id: who.id, state: who.state, checks };
}

/** The checks that every process has. */
export function shellChecks(facts: {
  isStarted: boolean;
  busStatus: BusStatus;
  isLeaseHeld: boolean;
  isDraining: boolean;
  /** What the start is at. */
  startDetail: string;
}): Check[] {
  const isConnected = facts.busStatus === 'connected';
  const checks = [
    {
      name: 'bus',
      ok: isConnected,
      detail: isConnected ? 'connected to NATS' : `NATS: ${facts.busStatus}`,
    },
    {
      name: 'lease',
      ok: facts.isLeaseHeld,
      detail: facts.isLeaseHeld
        ? 'registered'
        : 'no confirmed lease: others count this process as gone',
    },
  ];
  if (!facts.isStarted) checks.push({ name: 'started', ok: false, detail: facts.startDetail });
  if (facts.isDraining) {
    checks.push({ name: 'accepting', ok: false, detail: 'draining: takes no new work' });
  }
  return checks;
}
