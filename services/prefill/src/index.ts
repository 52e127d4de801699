export { type PrefillConfig, prefillConfigSchema } from './config.ts';
export { createPrefill } from './prefill.ts';
