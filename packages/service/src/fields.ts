import { z } from 'zod';

/**
 * Field kinds of a configuration. Each takes the text of an environment variable and says what it wants when it gets
 * something else. Chain `.default()` or `.optional()`, then `.describe()`.
 */
export const field = {
  /** An integer; the unit belongs into the field's name (`drainMs`). */
  int: (min: number, max: number) =>
    z
      .union([z.string(), z.number()], { error: `must be an integer from ${min} to ${max}` })
      .transform((value) => parseNumber(value))
      .pipe(
        z
          .int({ error: `must be an integer from ${min} to ${max}` })
          .min(min, { error: `must be at least ${min}` })
          .max(max, { error: `must be at most ${max}` }),
      ),
  number: (min: number, max: number) =>
    z
      .union([z.string(), z.number()], { error: `must be a number from ${min} to ${max}` })
      .transform((value) => parseNumber(value))
      .pipe(
        z
          .number({ error: `must be a number from ${min} to ${max}` })
          .min(min, { error: `must be at least ${min}` })
          .max(max, { error: `must be at most ${max}` }),
      ),
  /** true/false, 1/0, yes/no, on/off. */
  flag: () =>
    z.union([z.boolean(), z.stringbool({ error: 'must be true or false' })], {
      error: 'must be true or false',
    }),
  choice: <const T extends readonly [string, ...string[]]>(values: T) =>
    z.enum(values, { error: `must be one of ${values.join(', ')}` }),
  /** Text that is not empty. */
  text: (maxChars = 4_096) =>
    z
      .string()
      .min(1, { error: 'must not be empty' })
      .max(maxChars, { error: `must have at most ${maxChars} characters` }),
  matching: (pattern: RegExp, wanted: string) =>
    z.string({ error: `must be ${wanted}` }).regex(pattern, { error: `must be ${wanted}` }),
};

/** NaN for text that is not wholly a decimal number, which every number schema refuses. */
function parseNumber(value: string | number): number {
  if (typeof value === 'number') return value;
  return /^-?\d+(\.\d+)?$/.test(value.trim()) ? Number(value) : Number.NaN;
}
