import { z } from 'zod';
import { SimulatorError } from '../errors.ts';

/** Tokens that one hash id of a Mooncake trace stands for. */
export const MOONCAKE_BLOCK_TOKENS = 512;

/** One line of a trace in the format of the Mooncake project (FAST '25): equal ids stand for equal leading blocks. */
const recordSchema = z.object({
  timestamp: z.number().min(0),
  input_length: z.int().min(1),
  output_length: z.int().min(0),
  hash_ids: z.array(z.int().min(0)),
});
export type MooncakeRecord = z.infer<typeof recordSchema>;

/** Reads a JSONL trace, sorted by time. Throws `SIMULATOR_BAD_TRACE` that names the line. */
export function parseMooncakeTrace(text: string): MooncakeRecord[] {
  const records: MooncakeRecord[] = [];
  text.split('\n').forEach((line, i) => {
    if (line.trim() === '') return;
    const result = recordSchema.safeParse(jsonOf(line));
    if (!result.success) {
      const reason = reasonOf(result.error);
      throw new SimulatorError('SIMULATOR_BAD_TRACE', `line ${i + 1} of the trace: ${reason}`);
    }
    const { hash_ids: ids, input_length: tokens } = result.data;
    if (ids.length < Math.ceil(tokens / MOONCAKE_BLOCK_TOKENS)) {
      const message = `line ${i + 1} of the trace: ${ids.length} hash ids for ${tokens} tokens, one for each ${MOONCAKE_BLOCK_TOKENS} is needed`;
      throw new SimulatorError('SIMULATOR_BAD_TRACE', message);
    }
    records.push(result.data);
  });
  if (records.length === 0) throw new SimulatorError('SIMULATOR_BAD_TRACE', 'the trace is empty');
  return records.toSorted((a, b) => a.timestamp - b.timestamp);
}

/** The first fault in one sentence: a line of another format has them all. */
function reasonOf(error: z.ZodError): string {
  const { path, message } = error.issues[0] ?? { path: [], message: error.message };
  if (path.length === 0) return 'no JSON object, and a Mooncake trace has one on each line';
  return `${path.join('.')}: ${message}`;
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
