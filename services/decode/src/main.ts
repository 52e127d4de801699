import { runService } from '@busbar/service';
import { decodeConfigSchema } from './config.ts';
import { createDecode } from './decode.ts';

await runService('decode', {
  configSchema: decodeConfigSchema,
  create: (context, config) => createDecode(context, config, process.env),
  env: process.env,
});
