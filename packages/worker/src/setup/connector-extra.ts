import { ServiceError } from '@busbar/service';
import { z } from 'zod';

/** Routers count on the lease, so that no decode worker comes for blocks that another request has by then. */
const OWNED = 'kv_lease_duration';

const extraSchema = z
  .string()
  .transform((text, context) => {
    try {
      const value: unknown = JSON.parse(text);
      return value;
    } catch {
      context.addIssue('no JSON');
      return z.NEVER;
    }
  })
  .pipe(z.record(z.string(), z.json()));

/** What BUSBAR_KV_CONNECTOR_EXTRA says, as an object. Throws SERVICE_CONFIG for anything else, and for what Busbar settles. */
export function readConnectorExtra(text: string | undefined): Record<string, unknown> {
  if (text === undefined) return {};
  const parsed = extraSchema.safeParse(text);
  if (!parsed.success) throw refusal('is no JSON object such as {"num_threads": 1}');
  if (OWNED in parsed.data) throw refusal(`sets ${OWNED}, which Busbar settles`);
  return parsed.data;
}

function refusal(what: string): ServiceError {
  return new ServiceError('SERVICE_CONFIG', `BUSBAR_KV_CONNECTOR_EXTRA ${what}.`);
}
