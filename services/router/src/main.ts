import { runService } from '@busbar/service';
import { configSchema } from './config.ts';
import { createRouter } from './router.ts';

await runService('router', { configSchema, create: createRouter, env: process.env });
