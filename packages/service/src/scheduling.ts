import { execFile } from 'node:child_process';
import { platform } from 'node:os';
import { messageOf } from '@busbar/base';
import type { Logger } from '@busbar/telemetry';
import { field } from './fields.ts';

const LIMIT_MS = 2_000;

/** Linux scheduling policies: SCHED_BATCH and SCHED_OTHER. */
export const SCHEDULINGS = ['batch', 'normal'] as const;
export type Scheduling = (typeof SCHEDULINGS)[number];

/** The field `scheduling` of services that only pass messages on. Not for workers: an engine would inherit it. */
export const schedulingField = field
  .choice(SCHEDULINGS)
  .default('batch')
  .describe(
    'Linux: whether this process, when woken, waits for the end of what runs on its core (batch) or interrupts it (normal)',
  );

/**
 * Puts all threads of this process, and those that they start, under the scheduling policy `batch` by util-linux's `chrt`, which
 * needs no privilege. A woken process then interrupts nobody, so that bursts of messages are handled in one go. A core that
 * is idle takes it as fast as before. Where that is not possible the process goes on as it is, and the log says so.
 * Resolves to what holds now.
 */
export async function applyScheduling(scheduling: Scheduling, log: Logger): Promise<Scheduling> {
  if (scheduling === 'normal' || platform() !== 'linux') return 'normal';
  try {
    await chrt('--all-tasks', '--batch', '--pid', '0', String(process.pid));
    return 'batch';
  } catch (error) {
    log.debug({ reason: messageOf(error) }, 'scheduling stays normal');
    return 'normal';
  }
}

function chrt(...args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile('chrt', args, { timeout: LIMIT_MS }, (error) => {
      if (error === null) resolve();
      else reject(error);
    });
  });
}
