import { createRng, type Rng } from '@busbar/base';
import {
  type PolicyName,
  ROUTER_DEFAULTS,
  type RouterConfig,
  type RouterCore,
} from '@busbar/routing';

/** Makes seeded router cores with the settings of a live router. */
export function routerFactory(
  create: (config: RouterConfig, rng: Rng) => RouterCore,
  changes: Partial<RouterConfig> = {},
): (routerId: string, policy: PolicyName, seed: number) => RouterCore {
  return (routerId, policy, seed) =>
    create({ ...ROUTER_DEFAULTS, routerId, policy, ...changes }, createRng(seed));
}
