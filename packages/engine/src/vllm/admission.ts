import type { WorkerInfo } from '@busbar/protocol';
import type { EngineRequest, SubmitResult } from '../port.ts';
import { minorOf } from './engine-facts.ts';

type Refusal = Extract<SubmitResult, { kind: 'refused' }>;

/** A decode engine of this minor version or later dies of parameters without `remote_request_id`. */
const REQUEST_ID_SINCE = 14;

/** Whether parameters of this version's NixlConnector are incomplete without `remote_request_id`. */
export function needsRequestId(version: string): boolean {
  return (minorOf(version) ?? REQUEST_ID_SINCE) >= REQUEST_ID_SINCE;
}

/** Why a running engine cannot take a request; undefined when it can. */
export function refuseRequest(request: EngineRequest, info: WorkerInfo): Refusal | undefined {
  const { tokens, kvSource, stageKv } = request;
  const { contextTokens, transfer } = info;
  if (tokens.length === 0) return refuse('WORKER_BAD_REQUEST', 'the prompt is empty');
  if (request.maxTokens < 1) return refuse('WORKER_BAD_REQUEST', 'maxTokens is below 1');
  if (tokens.length >= contextTokens) {
    const text = `${tokens.length} prompt tokens leave no room in a context of ${contextTokens}`;
    return refuse('WORKER_TOO_LONG', text);
  }
  if (stageKv !== undefined && transfer === undefined) {
    return refuse('WORKER_BAD_REQUEST', 'this engine has no KV connector');
  }
  if (kvSource === undefined) return undefined;
  if (stageKv !== undefined) return refuse('WORKER_BAD_REQUEST', 'a request stages or fetches KV');
  const { protocol, params } = kvSource.transfer;
  if (protocol !== transfer?.protocol) {
    return refuse('WORKER_BAD_REQUEST', `this engine does not fetch KV by ${protocol}`);
  }
  const isIncomplete =
    protocol === 'nixl' &&
    needsRequestId(info.engineVersion) &&
    params['remote_request_id'] === undefined;
  return isIncomplete
    ? refuse('WORKER_BAD_REQUEST', 'the transfer parameters lack remote_request_id')
    : undefined;
}

/** A refusal; only a fault of the engine may go better elsewhere. */
export function refuse(code: Refusal['code'], message: string): Refusal {
  return { kind: 'refused', code, message, retryable: code === 'WORKER_FAULT' };
}
