import { applyScheduling, runService } from '@busbar/service';
import { routerConfigSchema } from './config.ts';
import { createRouter } from './router.ts';

await runService('router', {
  configSchema: routerConfigSchema,
  create: async (context, config) => {
    await applyScheduling(config.scheduling, context.log);
    return createRouter(context, config);
  },
  env: process.env,
});
