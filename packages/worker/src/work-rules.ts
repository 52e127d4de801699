import {
  isProcessId,
  limit,
  type WorkAck,
  type WorkerInfo,
  type WorkHeader,
} from '@busbar/protocol';
import { badRequest } from './work-intake.ts';

type RefusalCode = Extract<WorkAck, { kind: 'refused' }>['code'];

export interface WorkerState {
  info: WorkerInfo | undefined;
  isDraining: boolean;
  /** Requests that run, wait, or have left KV here. */
  inFlight: number;
}

/** Why a worker in this state takes no such request now; judged for each part of a prompt. Undefined when it does. */
export function refuseWork(header: WorkHeader, state: WorkerState): WorkAck | undefined {
  const { info, isDraining, inFlight } = state;
  if (info === undefined) return refuse('WORKER_FAULT', 'the engine is not ready');
  if (isDraining) return refuse('WORKER_DRAINING', 'this worker is leaving');
  if (inFlight >= limit('workerInFlight')) {
    return refuse('WORKER_FULL', `${inFlight} requests run or wait here`);
  }
  if (!isProcessId(header.frontendId)) return badRequest('frontendId is not a process id');
  if (header.model !== info.model) return badRequest('this worker serves another model');
  if (header.lora !== undefined && !(info.loras ?? []).includes(header.lora)) {
    return refuse('WORKER_NO_MODEL', `this worker does not have the adapter ${header.lora}`);
  }
  if (header.promptTokens < info.contextTokens) return undefined;
  const message = `${header.promptTokens} prompt tokens leave no room in a context of ${info.contextTokens}`;
  return { kind: 'refused', code: 'WORKER_TOO_LONG', message, retryable: false };
}

/** Why this is not the kind of work that this worker does; judged when the prompt is complete. Undefined when it is. */
export function refuseKind(header: WorkHeader, info: WorkerInfo): WorkAck | undefined {
  const { stageKv, kvSource } = header;
  if (stageKv !== undefined && kvSource !== undefined) {
    return badRequest('a request either leaves its KV here or fetches it, not both');
  }
  if (stageKv === undefined && info.role === 'prefill') {
    return wrongKind('a prefill worker serves no whole request: it keeps KV for decode workers');
  }
  if (stageKv !== undefined && (info.role !== 'prefill' || info.transfer === undefined)) {
    const reason =
      info.role === 'prefill' ? 'its engine exchanges no KV' : `its role is ${info.role}`;
    return wrongKind(`this worker keeps no KV for others: ${reason}`);
  }
  if (kvSource === undefined) return undefined;
  const own = info.transfer?.protocol;
  if (own !== kvSource.transfer.protocol) {
    const now = own === undefined ? 'exchanges no KV' : `exchanges KV by ${own}`;
    return wrongKind(`KV comes by ${kvSource.transfer.protocol} and this worker ${now}`);
  }
  if (kvSource.validForMs <= 0) {
    return refuse('WORKER_KV_LOST', `the KV at ${kvSource.prefillWorkerId} has waited too long`);
  }
  return undefined;
}

function wrongKind(message: string): WorkAck {
  return refuse('WORKER_WRONG_KIND', message);
}

/** A refusal that another worker, or the same one asked in another way, may well not repeat. */
function refuse(code: RefusalCode, message: string): WorkAck {
  return { kind: 'refused', code, message, retryable: true };
}
