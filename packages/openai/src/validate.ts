import { limit } from '@busbar/protocol';
import type { z } from 'zod';
import { unexpected } from './expectations.ts';
import { type Endpoint, findUnfitField } from './field-rules.ts';
import type { SharedFields } from './generation-params.ts';
import { type Checked, invalid, type Problem, refuse } from './problem.ts';
import { findOversize } from './size-checks.ts';
import { findSteering } from './steering.ts';

/**
 * Fields that would steer the stack, refused and mistyped fields and those of another endpoint, then sizes, then the schema, then rules
 * that span fields; the first problem is the answer.
 */
export function validate<T extends SharedFields>(
  schema: z.ZodType<T>,
  body: Record<string, unknown>,
  endpoint: Endpoint,
): Checked<T> {
  const early = findSteering(body) ?? findUnfitField(body, endpoint) ?? findOversize(body);
  if (early !== undefined) return refuse(early);
  const result = schema.safeParse(body);
  if (!result.success) {
    const path = result.error.issues[0]?.path ?? [];
    return refuse(unexpected(path, valueAt(body, path) === undefined));
  }
  const late = findConflict(result.data);
  return late === undefined ? { ok: true, value: result.data } : refuse(late);
}

function findConflict(fields: SharedFields): Problem | undefined {
  if (fields.stream_options && fields.stream !== true) {
    return invalid('`stream_options` may only be given when `stream` is true.', 'stream_options');
  }
  const maxTokens = fields.max_completion_tokens ?? fields.max_tokens ?? limit('outputTokens');
  if ((fields.min_tokens ?? 0) > maxTokens) {
    return invalid('`min_tokens` must not be above `max_tokens`.', 'min_tokens');
  }
  return undefined;
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  let value = body;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}
