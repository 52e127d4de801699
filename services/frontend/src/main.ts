import { runService } from '@busbar/service';
import { frontendConfigSchema } from './config.ts';
import { createFrontend } from './frontend.ts';

await runService('frontend', {
  configSchema: frontendConfigSchema,
  create: createFrontend,
  env: process.env,
});
