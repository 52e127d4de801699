import { createRng, type Rng } from '@busbar/base';
import { limit } from '@busbar/protocol';
import type { PolicyName, RouterConfig, RouterCore } from '@busbar/routing';

/** As a router service is set up when nobody says otherwise. */
const DEFAULTS = {
  queueLimit: limit('routerQueue'),
  queueWaitMs: 2_000,
  loadSilenceMs: limit('loadSilenceMs'),
  bookingTtlMs: limit('bookingTtlMs'),
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
