import { limit } from '@busbar/protocol';

/** Times outside the engines, in milliseconds, as measured on one machine. */
export interface Timing {
  /** One hop over the bus. */
  hopMs: number;
  /** Template, tokenizing and hashing in a frontend. */
  frontendMs: number;
  /** From the end of a step until routers hear of its blocks. */
  kvDelayMs: number;
  loadIntervalMs: number;
  /** Silence of a worker until its frontend gives it up. */
  detectMs: number;
  /** Time to live of a lease: until routers see that a worker is gone. */
  leaseTtlMs: number;
}

export const DEFAULT_TIMING: Timing = {
  hopMs: 0.25,
  frontendMs: 1,
  kvDelayMs: 1,
  loadIntervalMs: limit('loadIntervalMs'),
  detectMs: limit('tokenSilenceMs'),
  leaseTtlMs: limit('leaseTtlMs'),
};
