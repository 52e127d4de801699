import { baseFields, field, schedulingField } from '@busbar/service';
import { z } from 'zod';

export const frontendConfigSchema = z.object({
  ...baseFields,
  httpHost: field.text(255).default('127.0.0.1').describe('Address of the API'),
  httpPort: field
    .int(0, 65_535)
    .default(8_000)
    .describe('Port of the API; 0 takes a free one and is logged'),
  httpReusePort: field
    .flag()
    .default(false)
    .describe('Several frontends share one port; the kernel spreads connections over them'),
  keepaliveMs: field
    .int(100, 600_000)
    .default(15_000)
    .describe('A stream that is silent for so long gets a comment line, so that no proxy cuts it'),
  tokenizerThreads: field
    .int(0, 64)
    .default(1)
    .describe('Threads for long prompts; 0 encodes everything in the main thread'),
  scheduling: schedulingField,
});
export type FrontendConfig = z.infer<typeof frontendConfigSchema>;
