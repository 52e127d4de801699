import { NAMESPACE, PROCESS_ID } from '@busbar/protocol';
import { LOG_FORMATS, LOG_LEVELS } from '@busbar/telemetry';
import { z } from 'zod';
import { field } from './fields.ts';

/** Fields that every service has. A service spreads them into its own object: `z.object({ ...baseFields, … })`. */
export const baseFields = {
  natsUrl: field
    .matching(/^(nats|tls|ws|wss):\/\/\S+$/, 'one or more NATS URLs such as nats://127.0.0.1:4222')
    .default('nats://127.0.0.1:4222')
    .describe('NATS server; several are separated by commas'),
  namespace: field
    .matching(NAMESPACE, '1 to 32 of a-z, 0-9 and "-"')
    .default('default')
    .describe('Separates stacks that share one NATS server'),
  id: field
    .matching(PROCESS_ID, '1 to 40 of a-z, 0-9 and "-"')
    .optional()
    .describe('Name of this process; `<role>-<8 characters>` when absent'),
  adminHost: field
    .text(255)
    .default('127.0.0.1')
    .describe('Address of the admin server (/live, /ready, /health, /metrics)'),
  adminPort: field
    .int(0, 65_535)
    .default(0)
    .describe('Port of the admin server; 0 takes a free one'),
  logLevel: field.choice(LOG_LEVELS).default('info').describe('Lowest level that is logged'),
  logFormat: field
    .choice(LOG_FORMATS)
    .default('json')
    .describe('json for machines, pretty for people'),
  drainMs: field
    .int(0, 3_600_000)
    .default(30_000)
    .describe('How long a stopping process lets running requests finish'),
};

export const baseConfigSchema = z.object(baseFields);
export type BaseConfig = z.infer<typeof baseConfigSchema>;
