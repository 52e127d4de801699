import { createRng, type Rng } from '@busbar/base';
import { LIMITS } from '@busbar/protocol';
import type { PolicyName, RouterConfig, RouterCore } from '@busbar/routing';

/** As a router service is set up when nobody says otherwise. */
const DEFAULTS = {
  queueLimit: LIMITS.routerQueue.value,
  queueWaitMs: 2_000,
  loadSilenceMs: LIMITS.loadSilenceMs.value,
  bookingTtlMs: LIMITS.bookingTtlMs.value,
  approximateTtlMs: 120_000,
  eventGraceMs: 3_000,
};

/** Makes seeded router cores with the settings of a live router. */
export function routerFactory(
  create: (config: RouterConfig, rng: Rng) => RouterCore,
  changes: Partial<RouterConfig> = {},
): (routerId: string, policy: PolicyName, seed: number) => RouterCore {
  return (routerId, policy, seed) =>
    create({ ...DEFAULTS, routerId, policy, ...changes }, createRng(seed));
}
