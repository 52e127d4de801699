import { toUsage, type UsageTokens } from './usage.ts';

/** `finish_reason` of the OpenAI API, as far as Busbar produces it. */
export type ApiFinishReason = 'stop' | 'length';

/** What stays the same over all chunks of one answer. */
export interface AnswerHead {
  kind: 'chat' | 'completion';
  id: string;
  /** Seconds since the Unix epoch, taken once. */
  created: number;
  model: string;
}

export interface AnswerChoice {
  text: string;
  finishReason: ApiFinishReason;
}

/** The body of an answer that is not streamed; choice i has index i. */
export function answerBody(
  head: AnswerHead,
  choices: readonly AnswerChoice[],
  usage: UsageTokens,
): string {
  const { kind, id, created, model } = head;
  const isChat = kind === 'chat';
  return JSON.stringify({
    id,
    object: isChat ? 'chat.completion' : 'text_completion',
    created,
    model,
    choices: choices.map(({ text, finishReason }, index) => ({
      index,
      ...(isChat ? { message: { role: 'assistant', content: text, refusal: null } } : { text }),
      logprobs: null,
      finish_reason: finishReason,
    })),
    usage: toUsage(usage),
  });
}
