import type { AnswerHead, ApiFinishReason } from './answer.ts';
import { errorBody, type Problem } from './problem.ts';
import { toUsage, type UsageTokens } from './usage.ts';

/** The last event of every stream. */
export const SSE_DONE = 'data: [DONE]\n\n';
/** A comment line that clients skip; keeps proxies from cutting a silent connection. */
export const SSE_KEEP_ALIVE = ': keep-alive\n\n';

/** The event that ends a stream which can no longer get a status code. */
export function errorEvent(problem: Problem): string {
  return `data: ${errorBody(problem)}\n\n`;
}

/**
 * Writes the events of one streamed answer. Everything but the text of a token is prepared once, so that an event
 * costs one short concatenation. The role is on the first event of each index and nowhere else.
 */
export class ChunkWriter {
  readonly #isChat: boolean;
  readonly #head: string;
  readonly #choices: { prefix: string; hasBegun: boolean }[] = [];

  constructor(head: AnswerHead) {
    this.#isChat = head.kind === 'chat';
    const object = this.#isChat ? 'chat.completion.chunk' : 'text_completion';
    this.#head = `data: {"id":${JSON.stringify(head.id)},"object":"${object}","created":${head.created},"model":${JSON.stringify(head.model)},"choices":[`;
  }

  /** A piece of text of one choice, with the tokens of that choice so far if the client wants them. */
  text(index: number, text: string, usage?: UsageTokens): string {
    const choice = this.#choice(index);
    const end = endOf(usage);
    if (!this.#isChat) {
      return `${choice.prefix}"text":${quote(text)},"logprobs":null,"finish_reason":null${end}`;
    }
    if (choice.hasBegun) {
      return `${choice.prefix}"delta":{"content":${quote(text)}},"finish_reason":null${end}`;
    }
    choice.hasBegun = true;
    return `${choice.prefix}"delta":{"role":"assistant","content":${quote(text)}},"finish_reason":null${end}`;
  }

  /** The last event of one choice; `usage` as in `text`. */
  finish(index: number, reason: ApiFinishReason, usage?: UsageTokens): string {
    const choice = this.#choice(index);
    const end = endOf(usage);
    if (!this.#isChat) {
      return `${choice.prefix}"text":"","logprobs":null,"finish_reason":"${reason}"${end}`;
    }
    const delta = choice.hasBegun ? '{}' : '{"role":"assistant","content":""}';
    choice.hasBegun = true;
    return `${choice.prefix}"delta":${delta},"finish_reason":"${reason}"${end}`;
  }

  /** The event with the usage, after the last `finish`. */
  usage(tokens: UsageTokens): string {
    return `${this.#head}],"usage":${JSON.stringify(toUsage(tokens))}}\n\n`;
  }

  #choice(index: number): { prefix: string; hasBegun: boolean } {
    return (this.#choices[index] ??= {
      prefix: `${this.#head}{"index":${index},`,
      hasBegun: false,
    });
  }
}

/** Ends the only choice of an event, and the event. */
function endOf(usage: UsageTokens | undefined): string {
  if (usage === undefined) return '}]}\n\n';
  return `}],"usage":${JSON.stringify(toUsage(usage))}}\n\n`;
}

/** Text that JSON shows as it is: no quote, backslash, control character or half of a surrogate pair. */
const PLAIN = /^[ !#-[\]-\ud7ff\ue000-\uffff]*$/;

/** Equals `JSON.stringify(text)`; most tokens need no escaping. */
export function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text);
}
