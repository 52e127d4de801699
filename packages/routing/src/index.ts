export { createRouterCore } from './core.ts';
export { ROUTER_DEFAULTS } from './defaults.ts';
export { pairRefusal } from './split/pair-refusal.ts';
export { SPLIT_LATER_TERMS } from './split/split-profiles.ts';
export type * from './types.ts';
export { DISAGGREGATION_MODES, POLICIES } from './types.ts';
