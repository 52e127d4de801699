export { createRouterCore } from './core.ts';
export { ROUTER_DEFAULTS } from './defaults.ts';
export type * from './types.ts';
export { POLICIES } from './types.ts';
