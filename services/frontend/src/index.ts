export { type FrontendConfig, frontendConfigSchema } from './config.ts';
export { FrontendError, type FrontendErrorCode } from './errors.ts';
export { createFrontend, type Frontend } from './frontend.ts';
