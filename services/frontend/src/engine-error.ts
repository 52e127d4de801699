import { AppError } from '@busbar/base';
import { BusError } from '@busbar/bus';
import type { StreamDelta } from '@busbar/protocol';
import { FrontendError } from './errors.ts';

/** What an engine may find of a request that it has begun: mistakes of the client, no room, no such adapter, the loss of KV. */
const KNOWN = new Set([
  'WORKER_BAD_REQUEST',
  'WORKER_TOO_LONG',
  'WORKER_FULL',
  'WORKER_NO_MODEL',
  'WORKER_KV_LOST',
]);

/** Why a stream ended with `error` or `cancelled`. All other codes count as WORKER_FAULT. */
export function engineError(delta: StreamDelta): AppError {
  if (delta.finish === 'cancelled') {
    const message = 'the worker stopped the stream';
    return new FrontendError('FRONTEND_WORKER_LOST', message, { retryable: true });
  }
  const { code = '', message = 'engine error', retryable = false } = delta.error ?? {};
  return new AppError(KNOWN.has(code) ? code : 'WORKER_FAULT', message, { retryable });
}

/** True when a worker refused the work: no token came of it, and nothing has to be stopped. */
export function isRefusal({ code }: AppError): boolean {
  return code.startsWith('WORKER_') && code !== 'WORKER_FAULT' && code !== 'WORKER_KV_LOST';
}

/** True when a message of work that failed so has begun nothing: the worker refused it, or nobody was there to hear it. */
export function isUntouched(error: AppError): boolean {
  const { cause } = error;
  return isRefusal(error) || (cause instanceof BusError && cause.code === 'BUS_NO_RESPONDERS');
}

/** True when a decode worker could not get the KV that it was told to fetch, and may well compute the prompt itself. */
export function blamesKv({ code }: AppError): boolean {
  return code === 'WORKER_KV_LOST' || code === 'WORKER_WRONG_KIND';
}
