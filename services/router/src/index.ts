export { type RouterServiceConfig, routerConfigSchema } from './config.ts';
export { createRouter } from './router.ts';
