import type { Service, ServiceContext } from '@busbar/service';
import { createWorkerService, type Env } from '@busbar/worker';
import type { DecodeConfig } from './config.ts';

/** A worker that serves whole requests, and those whose prompt a prefill worker has computed. */
export function createDecode(
  context: ServiceContext,
  config: DecodeConfig,
  env: Env,
): Promise<Service> {
  return createWorkerService(context, config, env);
}
