import { POLICIES, ROUTER_DEFAULTS } from '@busbar/routing';
import { baseFields, field } from '@busbar/service';
import { z } from 'zod';

/** Configuration of a router; `BUSBAR_` and the field's name in capitals is its environment variable. */
export const routerConfigSchema = z.object({
  ...baseFields,
  policy: field.choice(POLICIES).default('predictive').describe('How a worker is chosen'),
  eventGraceMs: field
    .int(100, 600_000)
    .default(ROUTER_DEFAULTS.eventGraceMs)
    .describe(
      'Time without KV events after a prefill that must have caused some, until a worker is demoted',
    ),
  queueWaitMs: field
    .int(0, 600_000)
    .default(ROUTER_DEFAULTS.queueWaitMs)
    .describe('How long a request may wait when no worker can take it'),
});
export type RouterServiceConfig = z.infer<typeof routerConfigSchema>;
