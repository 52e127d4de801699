import { limit } from '@busbar/protocol';
import { z } from 'zod';
import { unexpected } from './expectations.ts';
import { type GenerationParams, sharedFields, toGenerationParams } from './generation-params.ts';
import { type Checked, invalid, type Problem, refuse } from './problem.ts';
import { validate } from './validate.ts';

const completionSchema = z.object(sharedFields);

/** `max_tokens` of /v1/completions when the client leaves it out, as the OpenAI API defines it. */
const DEFAULT_COMPLETION_TOKENS = 16;

export interface CompletionRequest {
  kind: 'completion';
  model: string;
  /** At least one, none empty. Token ids are integers of 0 to 2^32-1; whether the model has them is not known here. */
  prompts: (string | Uint32Array)[];
  params: GenerationParams;
}

/** Validates the body of POST /v1/completions. */
export function parseCompletionRequest(body: Record<string, unknown>): Checked<CompletionRequest> {
  const checked = validate(completionSchema, body, 'completion');
  if (!checked.ok) return checked;
  const prompts = parsePrompts(body['prompt']);
  if (!prompts.ok) return prompts;
  const params = toGenerationParams(checked.value);
  params.maxTokens ??= DEFAULT_COMPLETION_TOKENS;
  if (prompts.value.length * params.candidates > limit('streamsPerRequest')) {
    const most = limit('streamsPerRequest');
    return refuse(
      invalid(`The number of prompts times \`n\` is above ${most}.`, 'n', 'too_many_entries'),
    );
  }
  return {
    ok: true,
    value: { kind: 'completion', model: checked.value.model, prompts: prompts.value, params },
  };
}

/** Walks the prompt by hand: it may be a million numbers, and the walk ends at the first wrong one. */
function parsePrompts(prompt: unknown): Checked<(string | Uint32Array)[]> {
  if (prompt === undefined || prompt === null) return refuse(unexpected(['prompt'], true));
  if (typeof prompt === 'string') return parseList([prompt]);
  if (!Array.isArray(prompt) || prompt.length === 0) return refuse(unexpected(['prompt'], false));
  return typeof prompt[0] === 'number' ? parseList([prompt]) : parseList(prompt);
}

function parseList(list: unknown[]): Checked<(string | Uint32Array)[]> {
  if (list.length > limit('prompts')) {
    const message = `\`prompt\` has more than ${limit('prompts')} prompts.`;
    return refuse(invalid(message, 'prompt', 'too_many_entries'));
  }
  const prompts: (string | Uint32Array)[] = [];
  for (const item of list) {
    if (typeof item === 'string') {
      if (item === '') return refuse(empty());
      prompts.push(item);
    } else if (Array.isArray(item)) {
      const tokens = parseTokens(item);
      if (!tokens.ok) return tokens;
      prompts.push(tokens.value);
    } else return refuse(unexpected(['prompt'], false));
  }
  return { ok: true, value: prompts };
}

function parseTokens(list: unknown[]): Checked<Uint32Array> {
  if (list.length === 0) return refuse(empty());
  if (list.length > limit('promptTokens')) {
    const message = `A prompt has more than ${limit('promptTokens')} tokens.`;
    return refuse(invalid(message, 'prompt', 'context_length_exceeded'));
  }
  const tokens = new Uint32Array(list.length);
  for (let i = 0; i < list.length; i++) {
    const id: unknown = list[i];
    if (typeof id !== 'number' || id >>> 0 !== id) return refuse(unexpected(['prompt'], false));
    tokens[i] = id;
  }
  return { ok: true, value: tokens };
}

function empty(): Problem {
  return invalid('`prompt` must not be empty.', 'prompt');
}
