import { DISAGGREGATION_MODES, POLICIES, ROUTER_DEFAULTS } from '@busbar/routing';
import { baseFields, field, schedulingField } from '@busbar/service';
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
    .describe(
      'How long a request may wait when no worker can take it; 4.5 s or longer while all of them are silent',
    ),
  disaggregation: field
    .choice(DISAGGREGATION_MODES)
    .default(ROUTER_DEFAULTS.disaggregation.mode)
    .describe(
      'When prompts go to a prefill worker: auto (where that is predicted to pay), always, never, threshold',
    ),
  disaggregationThreshold: field
    .int(0, 1_000_000)
    .default(ROUTER_DEFAULTS.disaggregation.thresholdTokens)
    .describe('For threshold: prompts are split when more tokens than this are uncached'),
  disaggregationStrict: field
    .flag()
    .default(ROUTER_DEFAULTS.disaggregation.isStrict)
    .describe(
      'Refuse requests that must be split and cannot be, and fail those whose split fails, instead of serving them whole',
    ),
  scheduling: schedulingField,
});
export type RouterServiceConfig = z.infer<typeof routerConfigSchema>;
