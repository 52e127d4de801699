import { AppError } from '@busbar/base';
import type { StreamDelta } from '@busbar/protocol';
import { FrontendError } from './errors.ts';

/** Why a stream ended with `error` or `cancelled`. An engine's own codes count as WORKER_FAULT, but for the loss of KV. */
export function engineError(delta: StreamDelta): AppError {
  if (delta.finish === 'cancelled') {
    const message = 'the worker stopped the stream';
    return new FrontendError('FRONTEND_WORKER_LOST', message, { retryable: true });
  }
  const { code, message = 'engine error', retryable = false } = delta.error ?? {};
  return new AppError(code === 'WORKER_KV_LOST' ? code : 'WORKER_FAULT', message, { retryable });
}

/** True when a worker refused the work: it never began, and nothing has to be stopped. */
export function isRefusal({ code }: AppError): boolean {
  return code.startsWith('WORKER_') && code !== 'WORKER_FAULT' && code !== 'WORKER_KV_LOST';
}

/** True when a decode worker could not get the KV that it was told to fetch, and may well compute the prompt itself. */
export function blamesKv({ code }: AppError): boolean {
  return code === 'WORKER_KV_LOST' || code === 'WORKER_WRONG_KIND';
}
