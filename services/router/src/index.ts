export { configSchema, type RouterServiceConfig } from './config.ts';
export { createRouter } from './router.ts';
