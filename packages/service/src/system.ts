import { randomInt } from 'node:crypto';
import { type Clock, createRng, type Rng } from '@busbar/base';
import type { Role } from '@busbar/protocol';

/** The machine's clock. */
export const systemClock: Clock = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
};

/** A generator with an unpredictable seed. */
export function randomRng(): Rng {
  return createRng(randomInt(2 ** 32));
}

/** `<role>-<8 base36 characters>`; 41 bits of chance. */
export function newProcessId(role: Role): string {
  let id = '';
  for (let i = 0; i < 8; i++) id += randomInt(36).toString(36);
  return `${role}-${id}`;
}

/** A number that tells this start of a process from the ones before. Never 0. */
export function newEpoch(): number {
  return randomInt(1, 2 ** 32);
}
