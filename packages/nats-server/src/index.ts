export {
  type EnsureOptions,
  ensureNatsServer,
  type FindOptions,
  findNatsServer,
  type NatsServerBinary,
  NatsServerError,
} from './finder.cjs';
