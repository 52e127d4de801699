import { runService } from '@busbar/service';
import { routerConfigSchema } from './config.ts';
import { createRouter } from './router.ts';

await runService('router', {
  configSchema: routerConfigSchema,
  create: createRouter,
  env: process.env,
});
