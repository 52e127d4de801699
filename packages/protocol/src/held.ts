import { z } from 'zod';
import { decodeFrame, encodeFrame, parse } from './frame.ts';
import { limit } from './limits.ts';

const heldSchema = z.object({
  from: z.int().min(0),
  before: z.int().min(0),
  decisionIds: z.array(z.string().max(128)).max(limit('heldDecisions')),
});

/**
 * What a frontend holds of the decisions that it asked for with numbers (`RouteRequest.ask`) of at least `from` and below `before`: these
 * ids, and of split requests those of their prefills. All asks of the range are over: answered, or given up.
 *
 * A decision of the range that is not in the list was never held, because its answer was lost, or has ended; and it will never be held,
 * since an answer that comes after its ask was given up is given back. So a list stays true however late it is read, and nothing that is
 * decided after it was made falls into its range. No clock takes part in this.
 */
export type HeldDecisions = z.infer<typeof heldSchema>;

export function encodeHeldDecisions(held: HeldDecisions): Uint8Array {
  return encodeFrame(held);
}

export function decodeHeldDecisions(bytes: Uint8Array): HeldDecisions {
  return parse(heldSchema, decodeFrame(bytes).header);
}
