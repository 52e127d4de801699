import { AppError, messageOf } from '@busbar/base';
import type { Engine } from '@busbar/engine';
import { type AdminAction, adminAction } from '@busbar/service';
import type { Logger } from '@busbar/telemetry';
import { z } from 'zod';
import type { Worker } from './worker.ts';

/** How long running requests may take to end before an engine is put to sleep. */
const SLEEP_WAIT_MS = 60_000;

const name = z.string().min(1).max(128);
const loadSchema = z.strictObject({ name, path: z.string().min(1).max(4_096) });
const unloadSchema = z.strictObject({ name });
const sleepSchema = z.strictObject({ level: z.union([z.literal(1), z.literal(2)]).default(1) });
const nothing = z.strictObject({});

/** What a person may do to a worker by POST to its admin port, as far as its engine can. */
export function createAdminActions(
  engine: Engine,
  worker: Worker,
  log: Logger,
): Readonly<Record<string, AdminAction>> {
  const actions: Record<string, AdminAction> = {
    '/cache/reset': adminAction(nothing, () => engine.resetCache()),
  };
  if (engine.loadLora !== undefined && engine.unloadLora !== undefined) {
    actions['/lora/load'] = adminAction(
      loadSchema,
      async (body) => await engine.loadLora?.(body.name, body.path),
    );
    actions['/lora/unload'] = adminAction(
      unloadSchema,
      async (body) => await engine.unloadLora?.(body.name),
    );
  }
  if (engine.sleep !== undefined && engine.wake !== undefined) {
    actions['/sleep'] = adminAction(sleepSchema, ({ level }) => putToSleep(engine, worker, level));
    actions['/wake'] = adminAction(nothing, async () => {
      await engine.wake?.();
      worker.resume();
    });
  }
  return Object.fromEntries(
    Object.entries(actions).map(([path, action]) => [path, logged(path, action, log)]),
  );
}

/** What a person changed has to be found again beside what it did to requests. */
function logged(path: string, action: AdminAction, log: Logger): AdminAction {
  return {
    run: async (body) => {
      try {
        const answer = await action.run(body);
        log.info({ path, body }, 'done by the admin port');
        return answer;
      } catch (error) {
        log.warn({ path, reason: messageOf(error) }, 'refused on the admin port');
        throw error;
      }
    },
  };
}

/** Routers hear first that nothing can be placed here; what runs may end. */
async function putToSleep(engine: Engine, worker: Worker, level: 1 | 2): Promise<void> {
  worker.pause();
  try {
    await worker.idle(AbortSignal.timeout(SLEEP_WAIT_MS));
    if (worker.running + worker.staged > 0) {
      const text = `${worker.running} requests still run here and the KV of ${worker.staged} waits`;
      throw new AppError('WORKER_FULL', text, { retryable: true });
    }
    await engine.sleep?.(level);
  } catch (error) {
    worker.resume();
    throw error;
  }
}
