export type { Clock } from './clock.ts';
export { AppError, assert, type ErrorKind, messageOf } from './errors.ts';
export { createRng, type Rng } from './rng.ts';
