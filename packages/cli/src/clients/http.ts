import { messageOf } from '@busbar/base';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { z } from 'zod';
import { CliError } from '../errors.ts';

const usageSchema = z.object({
  prompt_tokens: z.number(),
  completion_tokens: z.number(),
  prompt_tokens_details: z.object({ cached_tokens: z.number().optional() }).nullish(),
});

const completionSchema = z.object({
  choices: z.array(z.object({ message: z.object({ content: z.string().nullish() }) })).min(1),
  usage: usageSchema,
});

const chunkSchema = z.object({
  choices: z.array(z.object({ delta: z.object({ content: z.string().nullish() }) })).optional(),
  error: z.object({ message: z.string() }).optional(),
});

const errorSchema = z.object({
  error: z.object({ message: z.string(), code: z.string().nullish() }),
});
const modelsSchema = z.object({ data: z.array(z.object({ id: z.string() })) });

/** What `--url` names, without `/v1` and a slash at its end. Throws CLI_USAGE unless it is an HTTP address. */
export function apiUrl(flag: string): string {
  if (!URL.canParse(flag) || !/^https?:\/\//i.test(flag)) {
    throw new CliError(
      'CLI_USAGE',
      `--url takes an HTTP address such as http://127.0.0.1:8000, not "${flag}"`,
    );
  }
  return flag.replace(/\/(v1\/?)?$/, '');
}

export interface ChatMessage {
  role: 'user' | 'assistant';
  content: string;
}

export interface ChatAnswer {
  content: string;
  promptTokens: number;
  cachedTokens: number;
}

export interface ChatInput {
  url: string;
  model: string;
  messages: readonly ChatMessage[];
  maxTokens?: number;
  signal: AbortSignal;
}

/** One answer, whole. Throws CLI_HTTP with the server's own sentence, CLI_CONTEXT when it says that the prompt is too long. */
export async function chatOnce(input: ChatInput): Promise<ChatAnswer> {
  const response = await post(input, false);
  const body = completionSchema.parse(await response.json());
  return {
    content: body.choices[0]!.message.content ?? '',
    promptTokens: body.usage.prompt_tokens,
    cachedTokens: body.usage.prompt_tokens_details?.cached_tokens ?? 0,
  };
}

/** The pieces of one answer as they come. Throws as `chatOnce`, also for an error in the middle of the stream. */
export async function* chatStream(input: ChatInput): AsyncGenerator<string> {
  const response = await post(input, true);
  if (response.body === null) throw new CliError('CLI_HTTP', 'the answer has no body');
  const events = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream());
  for await (const event of events) {
    if (event.data === '[DONE]') return;
    const chunk = chunkSchema.parse(JSON.parse(event.data));
    if (chunk.error !== undefined) throw new CliError('CLI_HTTP', chunk.error.message);
    const content = chunk.choices?.[0]?.delta.content;
    if (content) yield content;
  }
  throw new CliError('CLI_HTTP', 'the answer broke off before its end');
}

/** Names of the models that the API lists. */
export async function listModels(url: string, signal: AbortSignal): Promise<string[]> {
  const response = await request(`${url}/v1/models`, { signal });
  return modelsSchema.parse(await response.json()).data.map((model) => model.id);
}

/** JSON of an admin or health endpoint with its status; undefined when nothing answers. */
export async function getJson(
  url: string,
  timeoutMs: number,
): Promise<{ status: number; body: unknown } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(timeoutMs) });
    return { status: response.status, body: await response.json() };
  } catch {
    return undefined;
  }
}

function post(input: ChatInput, stream: boolean): Promise<Response> {
  const body = {
    model: input.model,
    messages: input.messages,
    stream,
    ...(input.maxTokens === undefined ? {} : { max_tokens: input.maxTokens }),
  };
  return request(`${input.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: input.signal,
  });
}

async function request(url: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    const cause = error instanceof Error && error.cause ? `: ${messageOf(error.cause)}` : '';
    throw new CliError('CLI_HTTP', `${url} cannot be reached${cause}`, { cause: error });
  }
  if (response.ok) return response;
  const { message, code } = readError(await response.text());
  throw new CliError(
    code === 'context_length_exceeded' ? 'CLI_CONTEXT' : 'CLI_HTTP',
    `${response.status}: ${message}`,
  );
}

function readError(text: string): z.infer<typeof errorSchema>['error'] {
  try {
    return errorSchema.parse(JSON.parse(text)).error;
  } catch {
    return { message: text.slice(0, 300) };
  }
}
