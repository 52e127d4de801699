import { baseFields } from '@busbar/service';
import { workerFields } from '@busbar/worker';
import { z } from 'zod';

/** Configuration of a decode worker. */
export const decodeConfigSchema = z.object({ ...baseFields, ...workerFields });
export type DecodeConfig = z.infer<typeof decodeConfigSchema>;
