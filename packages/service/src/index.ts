export { type AdminAction, adminAction } from './admin-action.ts';
export { type BaseConfig, baseConfigSchema, baseFields } from './base-config.ts';
export { createBusMetrics } from './bus-metrics.ts';
export {
  type ConfigSchema,
  type LoadedConfig,
  loadConfig,
  type Origin,
  variableName,
} from './config.ts';
export { ServiceError, type ServiceErrorCode } from './errors.ts';
export { field } from './fields.ts';
export { leaseProblems } from './lease-problems.ts';
export {
  type LeaseListener,
  type LeaseProblemListener,
  LeaseWatch,
  type LeaseWatchOptions,
  type LeaveReason,
} from './lease-watch.ts';
export { likelyVariable } from './likely-variable.ts';
export type * from './port.ts';
export { portError } from './port-error.ts';
export { advertisedHost } from './reachable-host.ts';
export { runService, type ServiceDefinition } from './run-service.ts';
export { SCHEDULINGS, type Scheduling, scheduled, schedulingField } from './scheduling.ts';
export { shellWords } from './shell-words.ts';
export { systemClock } from './system.ts';
