import { runService, scheduled } from '@busbar/service';
import { routerConfigSchema } from './config.ts';
import { createRouter } from './router.ts';

await runService('router', {
  configSchema: routerConfigSchema,
  create: scheduled(createRouter),
  env: process.env,
});
