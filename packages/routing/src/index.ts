export type * from './types.ts';
export { POLICIES } from './types.ts';
