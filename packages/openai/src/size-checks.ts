import { type LimitName, limit } from '@busbar/protocol';
import { isObject } from './json-body.ts';
import { invalid, type Problem } from './problem.ts';

const LISTS: readonly (readonly [field: string, name: LimitName])[] = [
  ['messages', 'messages'],
  ['stop', 'stopStrings'],
  ['stop_token_ids', 'stopTokenIds'],
  ['tools', 'tools'],
];

/**
 * Sizes that multiply work, checked before any schema walks the values (a schema would collect one issue for each
 * element of a million).
 */
export function findOversize(body: Record<string, unknown>): Problem | undefined {
  for (const [field, name] of LISTS) {
    const value = body[field];
    if (Array.isArray(value) && value.length > limit(name)) return tooMany(field, limit(name));
  }
  const bias = body['logit_bias'];
  if (isObject(bias) && Object.keys(bias).length > limit('logitBias')) {
    return tooMany('logit_bias', limit('logitBias'));
  }
  const messages = body['messages'];
  return Array.isArray(messages) ? findOversizeMessage(messages) : undefined;
}

function findOversizeMessage(messages: unknown[]): Problem | undefined {
  for (let i = 0; i < messages.length; i++) {
    const message: unknown = messages[i];
    if (!isObject(message)) continue;
    for (const [field, name] of [
      ['content', 'contentParts'],
      ['tool_calls', 'toolCalls'],
    ] as const) {
      const value = message[field];
      if (Array.isArray(value) && value.length > limit(name)) {
        return tooMany(`messages[${i}].${field}`, limit(name));
      }
    }
  }
  return undefined;
}

function tooMany(param: string, most: number): Problem {
  return invalid(`\`${param}\` has more than ${most} entries.`, param, 'too_many_entries');
}
