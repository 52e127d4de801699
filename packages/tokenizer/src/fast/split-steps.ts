import { z } from 'zod';
import type { SplitStep } from './split.ts';

const sequence = z.looseObject({
  type: z.literal('Sequence'),
  pretokenizers: z.array(z.unknown()),
});
const split = z.looseObject({
  type: z.literal('Split'),
  behavior: z.string(),
  invert: z.boolean().default(false),
});
const digits = z.looseObject({ type: z.literal('Digits') });
const byteLevel = z.looseObject({
  type: z.literal('ByteLevel'),
  add_prefix_space: z.literal(false),
  use_regex: z.boolean().default(true),
});
const step = z.discriminatedUnion('type', [split, digits, byteLevel]);

/**
 * The steps of a pre-tokenizer that ends in ByteLevel and before it only splits; undefined for any other. `library` is the
 * object that Hugging Face's library made of the same configuration: its patterns are used, so that both cut alike.
 */
export function splitStepsOf(configuration: unknown, library: unknown): SplitStep[] | undefined {
  const chain = sequence.safeParse(configuration);
  const configs = z
    .array(step)
    .safeParse(chain.success ? chain.data.pretokenizers : [configuration]);
  const objects = chain.success ? membersOf(library) : [library];
  if (!configs.success || objects?.length !== configs.data.length) return undefined;
  if (configs.data.at(-1)?.type !== 'ByteLevel') return undefined;
  const steps: SplitStep[] = [];
  for (const [at, config] of configs.data.entries()) {
    const isLast = at === configs.data.length - 1;
    if ((config.type === 'ByteLevel') !== isLast) return undefined;
    if (config.type === 'ByteLevel' && !config.use_regex) continue;
    const pattern = patternOf(objects[at]);
    const gaps = gapsOf(config);
    if (pattern === undefined || gaps === undefined) return undefined;
    steps.push({ pattern, gaps });
  }
  return steps;
}

function gapsOf(config: z.infer<typeof step>): SplitStep['gaps'] | undefined {
  if (config.type !== 'Split') return 'dropped';
  if (config.behavior === 'Isolated' && !config.invert) return 'pieces';
  return config.behavior === 'Removed' && config.invert ? 'dropped' : undefined;
}

/** The library's objects are functions with properties, which no zod object schema takes. */
function propertyOf(value: unknown, name: string): unknown {
  return typeof value === 'function' ? Reflect.get(value, name) : undefined;
}

function patternOf(library: unknown): RegExp | undefined {
  const pattern = propertyOf(library, 'pattern');
  return pattern instanceof RegExp ? pattern : undefined;
}

function membersOf(library: unknown): unknown[] | undefined {
  const members = propertyOf(library, 'tokenizers');
  return Array.isArray(members) ? members : undefined;
}
