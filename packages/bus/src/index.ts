export { BusError, type BusErrorCode } from './errors.ts';
export type { BusErrorListener } from './guard.ts';
export {
  createMemoryBus,
  type MemoryBusOptions,
  MemoryNetwork,
  type MemoryNetworkOptions,
} from './memory-network.ts';
export { connectNats, type NatsOptions, OLDEST_NATS_SERVER } from './nats-connect.ts';
export type * from './port.ts';
