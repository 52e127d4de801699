/** Tokens of one answer. `completionTokens` counts what was generated, shown or not. */
export interface UsageTokens {
  promptTokens: number;
  completionTokens: number;
  /** Prompt tokens that the engine found in its KV cache; at most `promptTokens`. */
  cachedTokens: number;
}

/** `usage` of the OpenAI API. */
export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
}

export function toUsage(tokens: UsageTokens): Usage {
  return {
    prompt_tokens: tokens.promptTokens,
    completion_tokens: tokens.completionTokens,
    total_tokens: tokens.promptTokens + tokens.completionTokens,
    prompt_tokens_details: { cached_tokens: Math.min(tokens.cachedTokens, tokens.promptTokens) },
  };
}
