import type { Service, ServiceContext } from '@busbar/service';
import { createWorkerService } from '@busbar/worker';
import type { DecodeConfig } from './config.ts';

/** A worker that serves whole requests, and those whose prompt a prefill worker has computed. */
export function createDecode(context: ServiceContext, config: DecodeConfig): Promise<Service> {
  return createWorkerService(context, config);
}
