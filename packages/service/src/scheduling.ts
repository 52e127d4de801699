import { execFile } from 'node:child_process';
import { platform } from 'node:os';
import { promisify } from 'node:util';
import { messageOf } from '@busbar/base';
import type { Logger } from '@busbar/telemetry';
import { field } from './fields.ts';
import type { ServiceFactory } from './port.ts';

const LIMIT_MS = 2_000;
const run = promisify(execFile);

/** Linux scheduling policies: SCHED_BATCH and SCHED_OTHER. */
export const SCHEDULINGS = ['batch', 'normal'] as const;
export type Scheduling = (typeof SCHEDULINGS)[number];

/** The field `scheduling` of services that host no engine. Not for workers: an engine would inherit it. */
export const schedulingField = field
  .choice(SCHEDULINGS)
  .default(SCHEDULINGS[0])
  .describe(
    'Linux: batch waits its turn when woken on a busy core, normal may interrupt what runs there; busbar up reads it for nats-server too',
  );

/**
 * Puts all threads of this process, and those that they start, under the scheduling policy `batch` by util-linux's `chrt`, which
 * needs no privilege. A woken process then interrupts nobody, so that bursts of messages are handled in one go. A core that
 * is idle takes it as fast as before. Where that is not possible the process goes on, and the log says so. `normal` changes nothing.
 */
async function applyScheduling(scheduling: Scheduling, log: Logger): Promise<void> {
  if (scheduling === 'normal' || platform() !== 'linux') return;
  try {
    const args = ['--all-tasks', '--batch', '--pid', '0', String(process.pid)];
    await run('chrt', args, { timeout: LIMIT_MS });
    log.debug({ scheduling }, 'scheduling is set');
  } catch (error) {
    log.debug({ reason: messageOf(error) }, 'scheduling could not be set for all threads');
  }
}

/** The service, in a process under the scheduling policy of its configuration: what it starts later is under it as well. */
export function scheduled<Config extends { scheduling: Scheduling }>(
  create: ServiceFactory<Config>,
): ServiceFactory<Config> {
  return async (context, config) => {
    await applyScheduling(config.scheduling, context.log);
    return create(context, config);
  };
}
