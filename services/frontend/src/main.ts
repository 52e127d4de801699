import { applyScheduling, runService } from '@busbar/service';
import { frontendConfigSchema } from './config.ts';
import { createFrontend } from './frontend.ts';

await runService('frontend', {
  configSchema: frontendConfigSchema,
  create: async (context, config) => {
    await applyScheduling(config.scheduling, context.log);
    return createFrontend(context, config);
  },
  env: process.env,
});
