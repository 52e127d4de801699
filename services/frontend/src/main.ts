import { runService, scheduled } from '@busbar/service';
import { frontendConfigSchema } from './config.ts';
import { createFrontend } from './frontend.ts';

await runService('frontend', {
  configSchema: frontendConfigSchema,
  create: scheduled(createFrontend),
  env: process.env,
});
