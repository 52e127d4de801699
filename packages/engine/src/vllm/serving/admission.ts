import type { WorkerInfo } from '@busbar/protocol';
import { type Refusal, refuse, refuseShape } from '../../admission.ts';
import type { EngineRequest } from '../../port.ts';
import { refuseSource } from './transfer-params.ts';

/** Why a running engine cannot take a request; undefined when it can. */
export function refuseRequest(request: EngineRequest, info: WorkerInfo): Refusal | undefined {
  const { contextTokens, transfer, engineVersion } = info;
  const { kvSource, stageKv } = request;
  const refusal = refuseShape(request, contextTokens);
  if (refusal !== undefined) return refusal;
  if (stageKv !== undefined && transfer === undefined) {
    return refuse('WORKER_BAD_REQUEST', 'this engine has no KV connector');
  }
  if (kvSource === undefined) return undefined;
  const { protocol } = kvSource.transfer;
  if (protocol !== transfer?.protocol) {
    return refuse('WORKER_BAD_REQUEST', `this engine does not fetch KV by ${protocol}`);
  }
  // The prefill engine answered them: the request is as good as before, and its prompt can be computed here.
  const reason = refuseSource(kvSource, engineVersion);
  return reason === undefined ? undefined : refuse('WORKER_KV_LOST', reason);
}
