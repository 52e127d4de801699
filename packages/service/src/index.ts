export { type BaseConfig, baseConfigSchema, baseFields } from './base-config.ts';
export {
  type ConfigSchema,
  type LoadedConfig,
  loadConfig,
  type Origin,
  redactConfig,
  variableName,
  withoutCredentials,
} from './config.ts';
export { ServiceError, type ServiceErrorCode } from './errors.ts';
export { field } from './fields.ts';
export type * from './port.ts';
export { runService, type ServiceDefinition } from './run-service.ts';
export { type Shell, type ShellOptions, startShell } from './shell.ts';
export { newProcessId, randomRng, systemClock } from './system.ts';
