import { messageOf } from '@busbar/base';
import { apiUrl, type ChatMessage, chatStream, getJson, listModels } from '../clients/http.ts';
import { type CliContext, commandFor } from '../context.ts';
import { CliError } from '../errors.ts';
import { stackUrl } from '../stack/state.ts';
import { findTarget, isUp } from '../stack/target.ts';

const DEFAULT_URL = 'http://127.0.0.1:8000';
const LIVE_MS = 2_000;
const QUICK_TOKENS = 32;
const QUICK_MESSAGE = 'Hello';

export interface ChatFlags {
  namespace?: string;
  model?: string;
  url?: string;
  quick?: boolean;
}

/** `busbar chat`: one answer, or a conversation when no message is given on a terminal. */
export async function chat(
  context: CliContext,
  message: string | undefined,
  flags: ChatFlags,
): Promise<number> {
  const url = flags.url === undefined ? await findUrl(context, flags.namespace) : apiUrl(flags.url);
  const model = flags.model ?? (await onlyModel(url, context.signal));
  const talk: Talk = { context, url, model, messages: [] };
  if (flags.quick === true) {
    await sayQuick(talk, message ?? QUICK_MESSAGE);
    return 0;
  }
  if (message !== undefined) {
    await say(talk, message);
    return 0;
  }
  return converse(talk);
}

/**
 * The API of the stack of this machine. Without one the usual address is tried, where a stack in containers listens, but not for a
 * namespace that was named: its answer could come from another.
 */
async function findUrl(context: CliContext, namespaceFlag: string | undefined): Promise<string> {
  const target = findTarget(context, namespaceFlag);
  if (target.state !== undefined && isUp(target)) return stackUrl(target.state);
  const { namespace } = target;
  if (namespace === 'default' && (await getJson(`${DEFAULT_URL}/live`, LIVE_MS)) !== undefined) {
    return DEFAULT_URL;
  }
  throw new CliError(
    'CLI_NO_STACK',
    `no stack of namespace ${namespace} runs here: start one with "${commandFor(namespace, 'busbar up')}", or name an API with --url`,
  );
}

interface Talk {
  context: CliContext;
  url: string;
  model: string;
  messages: ChatMessage[];
}

/** A short answer, or one that is shorter still because the context of the model ends before. */
async function sayQuick(talk: Talk, content: string): Promise<void> {
  try {
    await say(talk, content, QUICK_TOKENS);
  } catch (error) {
    if (!(error instanceof CliError && error.code === 'CLI_CONTEXT')) throw error;
    await say(talk, content);
  }
}

async function say(talk: Talk, content: string, maxTokens?: number): Promise<void> {
  const { context, url, model } = talk;
  const messages: ChatMessage[] = [...talk.messages, { role: 'user', content }];
  let answer = '';
  const input = { url, model, messages, signal: context.signal };
  for await (const piece of chatStream(maxTokens === undefined ? input : { ...input, maxTokens })) {
    answer += piece;
    context.terminal.write(piece);
  }
  context.terminal.line();
  talk.messages = [...messages, { role: 'assistant', content: answer }];
}

/** Reads lines until the input ends. A failed answer is told, and the conversation goes on without it. */
async function converse(talk: Talk): Promise<number> {
  const { context } = talk;
  const { terminal } = context;
  if (context.isInputTty) terminal.line(`${talk.model} on ${talk.url}. Ctrl-D ends.`);
  let exitCode = 0;
  for (;;) {
    const text = await context.readLine(context.isInputTty ? '> ' : '');
    if (text === undefined || context.signal.aborted) return exitCode;
    if (text.trim() === '') continue;
    try {
      await say(talk, text);
      exitCode = 0;
    } catch (error) {
      if (context.signal.aborted) return exitCode;
      terminal.errorLine(messageOf(error));
      exitCode = 1;
    }
  }
}

async function onlyModel(url: string, signal: AbortSignal): Promise<string> {
  const models = await listModels(url, signal);
  const first = models[0];
  if (first === undefined) {
    throw new CliError(
      'CLI_NO_STACK',
      `${url} serves no model yet: see "busbar ps" and "busbar doctor"`,
    );
  }
  return first;
}
