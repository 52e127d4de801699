import { profileByName } from '@busbar/mocker';
import { createRouterCore } from '@busbar/routing';
import {
  type CompareOptions,
  routerFactory,
  WORKLOADS,
  type WorkloadDefinition,
} from '@busbar/simulator';

/** A built-in workload by its name. */
export function workload(name: string): WorkloadDefinition {
  const found = WORKLOADS.find((definition) => definition.name === name);
  if (found === undefined) throw new Error(`no workload ${name}`);
  return found;
}

/** What all simulations of these tests share: the real router core and the engine fitted to a small GPU. */
export const SETUP: Pick<CompareOptions, 'profile' | 'createRouter'> = {
  profile: profileByName('seed-8gb')!,
  createRouter: routerFactory(createRouterCore),
};
