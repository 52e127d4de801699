export { createRouterCore } from './core.ts';
export type * from './types.ts';
export { POLICIES } from './types.ts';
