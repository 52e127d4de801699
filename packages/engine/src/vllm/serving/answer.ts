import { z } from 'zod';

/** What one event of a stream, or a whole answer, says; of `/inference/v1/generate` and `/v1/completions` alike. */
export interface AnswerPart {
  tokens: readonly number[];
  finish: string | undefined;
  /** Undefined unless the engine was started with --enable-prompt-tokens-details. */
  cachedTokens: number | undefined;
  error: AnswerError | undefined;
  kvTransferParams: unknown;
}

export interface AnswerError {
  message: string;
  /** HTTP status that it stands for. */
  status: number;
}

const errorSchema = z.object({
  message: z.string().catch('unknown error'),
  code: z.coerce.number().int().catch(500),
});
const NO_TOKENS: readonly number[] = [];

const TOKENS_FIELD = '"token_ids":[';
const ZERO = 48;
const COMMA = 44;
const BRACKET = 93;

/**
 * The tokens of an event in the middle of a stream, without parsing the rest; undefined for all events that may say more. Quotes
 * within JSON strings are escaped, so that no text can look like a field. `readAnswerPart` is the reference.
 */
export function readPlainTokens(text: string): Uint32Array | undefined {
  const from = text.indexOf(TOKENS_FIELD);
  if (from === -1 || !text.includes('"finish_reason":null')) return undefined;
  if (text.includes('"usage":{') || text.includes('"error":')) return undefined;
  const tokens: number[] = [];
  let token = -1;
  for (let at = from + TOKENS_FIELD.length; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code >= ZERO && code < ZERO + 10) {
      token = Math.max(0, token) * 10 + code - ZERO;
      continue;
    }
    if (token === -1 || token > 0xffff_ffff || (code !== COMMA && code !== BRACKET))
      return undefined;
    if (code === BRACKET && tokens.length === 0) return Uint32Array.of(token);
    tokens.push(token);
    if (code === BRACKET) return Uint32Array.from(tokens);
    token = -1;
  }
  return undefined;
}

/** Undefined for text that is no answer of a vLLM. */
export function readAnswerPart(text: string): AnswerPart | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isRecord(value)) return undefined;
  const part: AnswerPart = {
    tokens: NO_TOKENS,
    finish: undefined,
    cachedTokens: undefined,
    error: undefined,
    kvTransferParams: value['kv_transfer_params'] ?? undefined,
  };
  const error = value['error'] ?? undefined;
  if (error !== undefined) {
    part.error = readError(error);
    return part;
  }
  const usage = value['usage'];
  if (isRecord(usage)) part.cachedTokens = readCachedTokens(usage['prompt_tokens_details']);
  const choices = value['choices'];
  if (!Array.isArray(choices)) return undefined;
  const choice: unknown = choices[0];
  if (choice === undefined) return part;
  if (!isRecord(choice)) return undefined;
  const tokens = choice['token_ids'];
  if (isTokens(tokens)) part.tokens = tokens;
  else if ((tokens !== null && tokens !== undefined) || isText(choice['text'])) return undefined;
  const finish = choice['finish_reason'];
  if (typeof finish === 'string') part.finish = finish;
  return part;
}

/** The error in the body of an answer with an error status; a body that is none is quoted. */
export function readErrorBody(status: number, text: string): AnswerError {
  const error = readAnswerPart(text)?.error;
  if (error !== undefined) return { message: error.message, status };
  return { message: text.trim().slice(0, 300) || `HTTP status ${status}`, status };
}

function readError(value: unknown): AnswerError {
  const parsed = errorSchema.safeParse(value);
  return parsed.success
    ? { message: parsed.data.message, status: parsed.data.code }
    : { message: String(value).slice(0, 300), status: 500 };
}

function readCachedTokens(details: unknown): number | undefined {
  if (!isRecord(details)) return undefined;
  const cached = details['cached_tokens'];
  return typeof cached === 'number' && Number.isInteger(cached) && cached >= 0 ? cached : undefined;
}

/** Text without its tokens: the engine does not know `return_token_ids`. */
function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/** Numbers that are no token ids would become other ids in silence. */
function isTokens(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((token) => token >>> 0 === token);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
