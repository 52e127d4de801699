import { limit } from '@busbar/protocol';
import { invalid, type Problem } from './problem.ts';

/** What each field must be, in words that end the sentence "`field` must be …". */
const EXPECTED: Readonly<Record<string, string>> = {
  model: 'the name of a model, a text',
  messages: `a list of 1 to ${limit('messages')} messages`,
  'messages[]': 'a message: an object with `role` and `content`',
  'messages[].role': '"system", "developer", "user", "assistant" or "tool"',
  'messages[].content': 'a text or a list of text parts; other kinds of parts are not supported',
  'messages[].name': 'a text',
  'messages[].tool_call_id': 'a text',
  'messages[].tool_calls': 'a list of tool calls, each with `id` and `function`',
  prompt: 'a text, a list of texts, a list of token ids, or a list of lists of token ids',
  max_tokens: `an integer from 1 to ${limit('outputTokens')}`,
  max_completion_tokens: `an integer from 1 to ${limit('outputTokens')}`,
  min_tokens: 'an integer of at least 0',
  temperature: 'a number from 0 to 2',
  top_p: 'a number from 0 to 1',
  top_k: 'an integer of at least -1',
  min_p: 'a number from 0 to 1',
  n: `an integer from 1 to ${limit('candidates')}`,
  stop: `a text or a list of at most ${limit('stopStrings')} texts of 1 to ${limit('stopStringChars')} characters`,
  stop_token_ids: `a list of at most ${limit('stopTokenIds')} token ids`,
  stream: 'true or false',
  stream_options: 'an object such as {"include_usage": true}',
  seed: 'an integer from -2^63 to 2^63 - 1',
  presence_penalty: 'a number from -2 to 2',
  frequency_penalty: 'a number from -2 to 2',
  repetition_penalty: 'a number above 0',
  logit_bias: `an object of at most ${limit('logitBias')} token ids, each with a number from -100 to 100`,
  tools: `a list of at most ${limit('tools')} function tools`,
  'tools[].type': '"function"',
  'tools[].function': 'an object with the `name` of the function',
  'tools[].function.name': '1 to 64 letters, digits, "_" or "-"',
  ignore_eos: 'true or false',
  add_generation_prompt: 'true or false',
  cache_salt: `a text of 1 to ${limit('cacheSaltChars')} characters`,
  reasoning_effort: 'a text such as "low", "medium" or "high"',
  chat_template_kwargs: 'an object of template variables',
};

/** `messages[2].content` from the path that a schema reports. */
function paramOf(path: readonly PropertyKey[]): string {
  let param = '';
  for (const key of path) {
    if (typeof key === 'number') param += `[${key}]`;
    else param += param === '' ? String(key) : `.${String(key)}`;
  }
  return param;
}

/** The problem for a value that broke its schema at `path`: names the field and what it must be, never the library. */
export function unexpected(path: readonly PropertyKey[], isMissing: boolean): Problem {
  for (let length = path.length; length > 0; length--) {
    const param = paramOf(path.slice(0, length));
    const expected = EXPECTED[param.replaceAll(/\[\d+\]/g, '[]')];
    if (expected === undefined) continue;
    if (isMissing && length === path.length) {
      return invalid(
        `\`${param}\` is missing: it must be ${expected}.`,
        param,
        'missing_required_parameter',
      );
    }
    return invalid(`\`${param}\` must be ${expected}.`, param);
  }
  return invalid('The request body has a field of the wrong type.', paramOf(path) || null);
}
