import { limit } from '@busbar/protocol';
import type { RouterConfig } from './types.ts';

/** A router as it is set up when nobody says otherwise; the live service and the simulator both begin from here. */
export const ROUTER_DEFAULTS: Readonly<Omit<RouterConfig, 'routerId' | 'policy'>> = {
  queueLimit: limit('routerQueue'),
  queueWaitMs: 2_000,
  loadSilenceMs: limit('loadSilenceMs'),
  bookingTtlMs: limit('bookingTtlMs'),
  approximateTtlMs: 120_000,
  eventGraceMs: 3_000,
  disaggregation: {
    mode: 'auto',
    thresholdTokens: 1_024,
    isStrict: false,
    // 1 Gbit/s: on a faster link a wrong assumption only lasts until it is probed, on a slower one it would cost seconds.
    assumedBytesPerMs: 125_000,
  },
};
