export { BusError, type BusErrorCode } from './errors.ts';
export type * from './port.ts';
