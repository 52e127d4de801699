import { runService } from '@busbar/service';
import { prefillConfigSchema } from './config.ts';
import { createPrefill } from './prefill.ts';

await runService('prefill', {
  configSchema: prefillConfigSchema,
  create: (context, config) => createPrefill(context, config, process.env),
  env: process.env,
});
