import { baseFields } from '@busbar/service';
import { workerFields } from '@busbar/worker';
import { z } from 'zod';

/** Configuration of a prefill worker. */
export const prefillConfigSchema = z.object({ ...baseFields, ...workerFields });
export type PrefillConfig = z.infer<typeof prefillConfigSchema>;
