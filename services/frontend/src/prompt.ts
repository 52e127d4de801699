import { BlockHasher, hashSeed } from '@busbar/blocks';
import {
  type ChatRequest,
  type Checked,
  type CompletionRequest,
  type GenerationParams,
  invalid,
  type Problem,
} from '@busbar/openai';
import { type HashWords, limit } from '@busbar/protocol';
import type { Tokenizer } from '@busbar/tokenizer';
import type { ServedModel } from './models/model-loader.ts';
import type { FoundModel } from './models/model-registry.ts';

/** One prompt, ready for a worker. Its candidates share it. */
export interface Prompt {
  tokens: Uint32Array;
  /** Sequence hashes of its full blocks. */
  hashes: HashWords;
  /** What the client asked for, or the room that is left in the context. */
  maxTokens: number;
}

/**
 * Renders, tokenizes, checks against the context and hashes. Problems are the client's; what the template refuses is
 * thrown as TOKENIZER_TEMPLATE. Prompts of usual length are done before this returns, long ones in a thread.
 */
export async function preparePrompts(
  request: ChatRequest | CompletionRequest,
  { model, lora }: FoundModel,
  signal: AbortSignal,
): Promise<Checked<Prompt[]>> {
  const unknown = findUnknownToken(request.params, model.tokenizer.vocabularySize);
  if (unknown !== undefined) return unknown;
  const { cacheSalt } = request.params;
  const hasher =
    cacheSalt === undefined && lora === undefined
      ? model.hasher
      : new BlockHasher(model.card.blockSize, hashSeed({ cacheSalt, lora }));
  const sources =
    request.kind === 'chat' ? [renderChat(request, model.tokenizer)] : request.prompts;
  const prompts: Prompt[] = [];
  for (const source of sources) {
    const tokens = typeof source === 'string' ? encode(request, source, model, signal) : source;
    const prompt = finishPrompt(
      tokens instanceof Promise ? await tokens : tokens,
      request,
      model,
      hasher,
    );
    if (!prompt.ok) return prompt;
    prompts.push(prompt.value);
  }
  return { ok: true, value: prompts };
}

function renderChat(request: ChatRequest, tokenizer: Tokenizer): string {
  return tokenizer.renderChat(
    request.messages.map((message) => ({ ...message })),
    {
      addGenerationPrompt: request.addGenerationPrompt,
      extra: request.templateVariables,
      ...(request.tools === undefined ? {} : { tools: request.tools }),
    },
  );
}

/** A chat's template writes its special tokens itself; a plain prompt gets those of the tokenizer. */
function encode(
  request: ChatRequest | CompletionRequest,
  text: string,
  { tokenizer }: ServedModel,
  signal: AbortSignal,
): Promise<Uint32Array> | Uint32Array {
  return tokenizer.encode(text.toWellFormed(), {
    addSpecialTokens: request.kind === 'completion',
    parseSpecial: true,
    signal,
  });
}

function finishPrompt(
  tokens: Uint32Array,
  { kind, params }: ChatRequest | CompletionRequest,
  { card, tokenizer }: ServedModel,
  hasher: BlockHasher,
): Checked<Prompt> {
  const field = kind === 'chat' ? 'messages' : 'prompt';
  if (tokens.length === 0) {
    return { ok: false, problem: invalid('The prompt has no tokens.', field) };
  }
  const contextTokens = Math.min(card.contextTokens, limit('promptTokens'));
  const room = Math.min(contextTokens - tokens.length, limit('outputTokens'));
  const maxTokens = params.maxTokens ?? room;
  if (room < 1 || maxTokens > room) {
    return { ok: false, problem: tooLong(tokens.length, contextTokens, params, field) };
  }
  for (const id of tokens) {
    if (id >= tokenizer.vocabularySize) return unknownToken(id, field);
  }
  return {
    ok: true,
    value: { tokens, hashes: hasher.hash(tokens), maxTokens },
  };
}

/** Engines fail on ids that their model does not have, or take no notice; either way the client hears it here. */
function findUnknownToken(
  { stopTokenIds, sampling }: GenerationParams,
  vocabularySize: number,
): Checked<never> | undefined {
  for (const id of stopTokenIds) {
    if (id >= vocabularySize) return unknownToken(id, 'stop_token_ids');
  }
  for (const id of Object.keys(sampling.logitBias ?? {})) {
    if (Number(id) >= vocabularySize) return unknownToken(Number(id), 'logit_bias');
  }
  return undefined;
}

function unknownToken(id: number, field: string): Checked<never> {
  const message = `Token id ${id} is not in the vocabulary of the model.`;
  return { ok: false, problem: invalid(message, field) };
}

function tooLong(
  promptTokens: number,
  contextTokens: number,
  params: GenerationParams,
  field: string,
): Problem {
  const head = `The context of this model is ${contextTokens} tokens; the prompt has ${promptTokens}`;
  const isPromptTooLong = promptTokens >= contextTokens;
  const tail = isPromptTooLong
    ? ''
    : ` and \`${params.maxTokensField}\` asks for ${params.maxTokens}`;
  return invalid(
    `${head}${tail}.`,
    isPromptTooLong ? field : params.maxTokensField,
    'context_length_exceeded',
  );
}
