import { setTimeout as sleep } from 'node:timers/promises';
import { createRng } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import {
  bucketNames,
  createSubjects,
  type EventKind,
  type Instance,
  type Role,
} from '@busbar/protocol';
import { createLogger, createRegistry, NOOP_TRACER } from '@busbar/telemetry';
import type { ServiceContext } from './port.ts';
import { summarize } from './readiness.ts';
import { newEpoch, systemClock } from './system.ts';

export interface TestContext extends ServiceContext {
  readonly events: { kind: EventKind; subject: string; data: Record<string, unknown> }[];
  readonly instanceChanges: Partial<Pick<Instance, 'worker' | 'state'>>[];
  /** Lines that were logged, as JSON. */
  readonly lines: string[];
}

/** A context for tests of one service on a given bus: no process, no admin port, no lease; what the service says is kept. */
export function createTestContext(role: Role, bus: Bus, id = `${role}-test`): TestContext {
  const lines: string[] = [];
  const events: TestContext['events'] = [];
  const instanceChanges: TestContext['instanceChanges'] = [];
  return {
    role,
    id,
    epoch: newEpoch(),
    namespace: 'test',
    subjects: createSubjects('test'),
    buckets: bucketNames('test'),
    bus,
    clock: systemClock,
    rng: createRng(1),
    log: createLogger({
      level: 'debug',
      format: 'json',
      base: { role, id },
      write: (line) => void lines.push(line),
    }),
    tracer: NOOP_TRACER,
    registry: createRegistry({ role, id }),
    publishEvent: (kind, subject, data) => void events.push({ kind, subject, data }),
    offerEvent: (kind, subject, data) => void events.push({ kind, subject, data: data() }),
    stopping: new AbortController().signal,
    reportStart: () => {},
    readiness: () => summarize({ role, id, state: 'ready' }, []),
    updateInstance: (change) => void instanceChanges.push(change),
    events,
    instanceChanges,
    lines,
  };
}

/** Looks every few milliseconds whether something holds. Rejects with `what` when it does not within the limit. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  limitMs = 5_000,
): Promise<void> {
  const deadlineMs = performance.now() + limitMs;
  while (!(await holds())) {
    if (performance.now() > deadlineMs) throw new Error(`waited too long for: ${what}`);
    await sleep(5);
  }
}
