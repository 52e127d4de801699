import { limit } from '@busbar/protocol';
import { z } from 'zod';
import { type GenerationParams, sharedFields, toGenerationParams } from './generation-params.ts';
import { findJsonBomb, isObject } from './json-body.ts';
import { type Checked, invalid, refuse } from './problem.ts';
import { validate } from './validate.ts';

const textPart = z.object({ type: z.literal('text'), text: z.string() });
const content = z.union([z.string(), z.array(textPart)]);
const name = z.string().nullish();
const toolCall = z.looseObject({
  id: z.string().nullish(),
  function: z.looseObject({ name: z.string(), arguments: z.unknown().optional() }),
});

const messageSchema = z.discriminatedUnion('role', [
  z.object({ role: z.literal('system'), content, name }),
  z.object({ role: z.literal('developer'), content, name }),
  z.object({ role: z.literal('user'), content, name }),
  z.object({
    role: z.literal('assistant'),
    content: content.nullish(),
    name,
    reasoning_content: z.string().nullish(),
    tool_calls: z.array(toolCall).nullish(),
  }),
  z.object({ role: z.literal('tool'), content, name, tool_call_id: z.string().nullish() }),
]);
type ParsedMessage = z.infer<typeof messageSchema>;

const toolSchema = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({ name: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/) }),
});

const chatSchema = z.object({
  ...sharedFields,
  messages: z.array(messageSchema).min(1).max(limit('messages')),
  tools: z.array(toolSchema).max(limit('tools')).nullish(),
  tool_choice: z.unknown().optional(),
  add_generation_prompt: z.boolean().nullish(),
  reasoning_effort: z.string().min(1).max(32).nullish(),
  chat_template_kwargs: z.custom<Record<string, unknown>>(isObject).nullish(),
});

/** A message as chat templates read it: content is one text, arguments of tool calls are objects where they parse. */
export interface TemplateMessage {
  role: string;
  content: string | null;
  name?: string;
  reasoning_content?: string;
  tool_calls?: unknown[];
  tool_call_id?: string;
}

export interface ChatRequest {
  kind: 'chat';
  model: string;
  messages: TemplateMessage[];
  /** Rendered by the template; undefined when there are none or the client chose "none". */
  tools: unknown[] | undefined;
  addGenerationPrompt: boolean;
  templateVariables: Record<string, unknown>;
  params: GenerationParams;
}

/** Names that the template gets from the server; a client that could set them would forge the conversation. */
const RESERVED_VARIABLES = ['messages', 'tools', 'add_generation_prompt', 'bos_token', 'eos_token'];
const PROTOTYPE_NAMES = ['__proto__', 'constructor', 'prototype'];

/** Validates the body of POST /v1/chat/completions. */
export function parseChatRequest(body: Record<string, unknown>): Checked<ChatRequest> {
  const checked = validate(chatSchema, body, 'chat');
  if (!checked.ok) return checked;
  const fields = checked.value;
  const variables = fields.chat_template_kwargs ?? {};
  const effort = fields.reasoning_effort;
  for (const key of Object.keys(variables)) {
    if (RESERVED_VARIABLES.includes(key) || PROTOTYPE_NAMES.includes(key)) {
      const message = `\`chat_template_kwargs\` must not set \`${key}\`.`;
      return refuse(invalid(message, 'chat_template_kwargs'));
    }
  }
  const hasTools = (fields.tools?.length ?? 0) > 0 && fields.tool_choice !== 'none';
  return {
    ok: true,
    value: {
      kind: 'chat',
      model: fields.model,
      messages: fields.messages.map(toTemplateMessage),
      tools: hasTools ? (fields.tools ?? undefined) : undefined,
      addGenerationPrompt: fields.add_generation_prompt ?? true,
      templateVariables:
        typeof effort === 'string' ? { reasoning_effort: effort, ...variables } : variables,
      params: toGenerationParams(fields),
    },
  };
}

function toTemplateMessage(message: ParsedMessage): TemplateMessage {
  const result: TemplateMessage = { role: message.role, content: joinParts(message.content) };
  if (message.name !== null && message.name !== undefined) result.name = message.name;
  if (message.role === 'tool' && typeof message.tool_call_id === 'string') {
    result.tool_call_id = message.tool_call_id;
  }
  if (message.role === 'assistant') {
    if (typeof message.reasoning_content === 'string') {
      result.reasoning_content = message.reasoning_content;
    }
    if (message.tool_calls && message.tool_calls.length > 0) {
      result.tool_calls = message.tool_calls.map((call) => ({
        ...call,
        function: { ...call.function, arguments: parseArguments(call.function.arguments) },
      }));
    }
  }
  return result;
}

/** A list of parts and the same text in one piece must share a prefix in the cache, so both become one text. */
function joinParts(parts: z.infer<typeof content> | null | undefined): string | null {
  if (parts === null || parts === undefined) return null;
  return typeof parts === 'string' ? parts : parts.map((part) => part.text).join('\n');
}

/** Templates print arguments as an object; clients send them back as the text they received. */
function parseArguments(value: unknown): unknown {
  if (typeof value !== 'string' || findJsonBomb(value) !== undefined) return value;
  try {
    const parsed: unknown = JSON.parse(value);
    return isObject(parsed) ? parsed : value;
  } catch {
    return value;
  }
}
