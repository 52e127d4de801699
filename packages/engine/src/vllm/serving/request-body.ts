import type { Sampling } from '@busbar/protocol';
import type { EngineRequest } from '../../port.ts';

/** Which of vLLM's two ways takes token ids and gives token ids. */
export type TokenApi = 'generate' | 'completions';

export const TOKEN_API_PATHS: Readonly<Record<TokenApi, string>> = {
  generate: '/inference/v1/generate',
  completions: '/v1/completions',
};

export interface BodyOptions {
  api: TokenApi;
  /** The engine's own name of the base model; an adapter's name stands in its place. */
  model: string;
  /** Passed on as it is. */
  kvTransferParams?: Readonly<Record<string, unknown>>;
}

/**
 * The body of one request. The prefill leg of a split request asks for one token in one piece, without `min_tokens` and
 * `stream_options`: up to 0.32 only whole answers carry the transfer parameters.
 */
export function requestBody(request: EngineRequest, options: BodyOptions): string {
  const isPrefillLeg = request.stageKv !== undefined;
  const common = {
    model: request.lora ?? options.model,
    stream: !isPrefillLeg,
    ...(isPrefillLeg ? {} : { stream_options: { include_usage: true } }),
    ...(request.cacheSalt === undefined ? {} : { cache_salt: request.cacheSalt }),
    ...(options.kvTransferParams === undefined
      ? {}
      : { kv_transfer_params: options.kvTransferParams }),
  };
  const sampling = samplingParams(request, isPrefillLeg);
  // Array.from: JSON.stringify makes an object of a typed array.
  const tokens = Array.from(request.tokens);
  return JSON.stringify(
    options.api === 'generate'
      ? { ...common, token_ids: tokens, sampling_params: { ...sampling, detokenize: false } }
      : { ...common, prompt: tokens, ...sampling, return_token_ids: true },
  );
}

/** Fields of vLLM's SamplingParams, which are also those of `/v1/completions`. `max_tokens` is always there: its default varies. */
function samplingParams(request: EngineRequest, isPrefillLeg: boolean): Record<string, unknown> {
  return {
    max_tokens: isPrefillLeg ? 1 : request.maxTokens,
    ...(request.minTokens > 0 && !isPrefillLeg ? { min_tokens: request.minTokens } : {}),
    ...(request.ignoreEos ? { ignore_eos: true } : {}),
    ...(request.stopTokenIds.length > 0 ? { stop_token_ids: request.stopTokenIds } : {}),
    ...samplingFields(request.sampling),
  };
}

function samplingFields(sampling: Sampling): Record<string, unknown> {
  const fields: Record<string, unknown> = {
    // Left out, vLLM would take what the model's generation_config.json says; the API says 1.
    temperature: sampling.temperature ?? 1,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    repetition_penalty: sampling.repetitionPenalty,
    seed: sampling.seed,
    logit_bias: sampling.logitBias,
  };
  for (const name of Object.keys(fields)) if (fields[name] === undefined) delete fields[name];
  return fields;
}
