export { type AnswerChoice, type AnswerHead, type ApiFinishReason, answerBody } from './answer.ts';
export { type ChatRequest, parseChatRequest, type TemplateMessage } from './chat-request.ts';
export { ChunkWriter, errorEvent, SSE_DONE, SSE_KEEP_ALIVE } from './chunks.ts';
export {
  type CompletionRequest,
  DEFAULT_COMPLETION_TOKENS,
  parseCompletionRequest,
} from './completion-request.ts';
export { FIELD_RULES, type FieldRule } from './field-rules.ts';
export type { GenerationParams, SamplingParams } from './generation-params.ts';
export { parseJsonObject } from './json-body.ts';
export { type ModelEntry, modelBody, modelListBody } from './models.ts';
export { type Checked, errorBody, invalid, type Problem, type ProblemType } from './problem.ts';
export { StopMatcher } from './stop-matcher.ts';
export { toUsage, type Usage, type UsageTokens } from './usage.ts';
