import type { Service, ServiceContext } from '@busbar/service';
import { createWorkerService, type Env } from '@busbar/worker';
import type { PrefillConfig } from './config.ts';

/** A worker that only computes prompts and keeps their KV until a decode worker has fetched it. */
export function createPrefill(
  context: ServiceContext,
  config: PrefillConfig,
  env: Env,
): Promise<Service> {
  return createWorkerService(context, config, env);
}
