import type { WorkHeader } from '@busbar/protocol';
import type { Candidate } from '../candidate.ts';

/** Which stream, booking and process a message of work belongs to. */
export interface WorkNames {
  streamId: number;
  frontendId: string;
  decisionId: string;
  traceparent: string | undefined;
}

/** What a worker is told that answers the whole request, or all of it behind the prefill. */
export function decodeHeader(candidate: Candidate, names: WorkNames): WorkHeader {
  const { params } = candidate.generation;
  const header = commonHeader(candidate, names);
  header.maxTokens = candidate.prompt.maxTokens;
  header.sampling = candidate.sampling;
  if (params.minTokens > 0) header.minTokens = params.minTokens;
  if (params.ignoreEos) header.ignoreEos = true;
  if (params.stopTokenIds.length > 0) header.stopTokenIds = params.stopTokenIds;
  return header;
}

/**
 * What a prefill worker is told: one token and nothing of how the answer is made, since the decode worker chooses the first token
 * itself.
 */
export function prefillHeader(candidate: Candidate, names: WorkNames): WorkHeader {
  return { ...commonHeader(candidate, names), stageKv: { transferId: names.decisionId } };
}

/** What both need to find and compute the same blocks. */
function commonHeader({ generation, prompt }: Candidate, names: WorkNames): WorkHeader {
  const { traceparent, ...ids } = names;
  const header: WorkHeader = {
    ...ids,
    model: generation.model,
    promptTokens: prompt.tokens.length,
    maxTokens: 1,
    sampling: { temperature: 0 },
  };
  const { cacheSalt } = generation.params;
  if (cacheSalt !== undefined) header.cacheSalt = cacheSalt;
  if (generation.lora !== undefined) header.lora = generation.lora;
  if (traceparent !== undefined) header.traceparent = traceparent;
  return header;
}
