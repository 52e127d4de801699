import type { ServiceContext } from '@busbar/service';
import type { WorkerConfig } from '../config.ts';
import { setUpMock } from './mock-setup.ts';
import type { EngineSetup, Env } from './port.ts';
import { setUpVllm } from './vllm-setup.ts';

/** Builds the engine of a configuration. Rejects with a sentence when the configuration cannot be carried out. */
export function setUpEngine(
  context: ServiceContext,
  config: WorkerConfig,
  env: Env,
): Promise<EngineSetup> {
  return config.engine === 'vllm' ? setUpVllm(context, config, env) : setUpMock(context, config);
}
