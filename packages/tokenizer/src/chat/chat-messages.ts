import type { ChatMessage } from '../port.ts';

/** What joins the text parts of one message; vLLM's choice, so that both render one prompt. */
const PART_SEPARATOR = '\n';

/**
 * Messages as templates expect them: content is always a string, so that a string and its one-part form give the same prompt,
 * and the arguments of tool calls are objects where they are the JSON of one, so that templates can print them their own way.
 */
export function normalizeMessages(messages: readonly ChatMessage[]): Record<string, unknown>[] {
  return messages.map((message) => {
    const { content, tool_calls: calls, ...rest } = message;
    const normal: Record<string, unknown> = { ...rest, content: textOf(content) };
    if (calls !== undefined && calls.length > 0)
      normal['tool_calls'] = calls.map(withParsedArguments);
    return normal;
  });
}

function textOf(content: ChatMessage['content']): string {
  if (typeof content === 'string') return content;
  return content?.map((part) => part.text).join(PART_SEPARATOR) ?? '';
}

function withParsedArguments(call: unknown): unknown {
  if (!isRecord(call) || !isRecord(call['function'])) return call;
  const written = call['function']['arguments'];
  if (typeof written !== 'string') return call;
  const parsed = parseObject(written);
  return parsed === undefined
    ? call
    : { ...call, function: { ...call['function'], arguments: parsed } };
}

function parseObject(text: string): Record<string, unknown> | undefined {
  if (text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
