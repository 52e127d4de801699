import { runService } from '@busbar/service';
import { configSchema } from './config.ts';
import { createDecode } from './decode.ts';

await runService('decode', { configSchema, create: createDecode, env: process.env });
