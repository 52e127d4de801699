import type { RouteReply, RouteRequest } from '@busbar/protocol';
import type { RouterEffect } from '../types.ts';
import type { Refusal } from './filter.ts';

/** When to come again after a rejection. */
const RETRY_AFTER_MS = 1_000;

type RejectCode = Extract<RouteReply, { kind: 'reject' }>['code'];

/** `retryAfterMs` is absent where coming again does not help. */
export function reject(
  key: number,
  code: RejectCode,
  message: string,
  retryAfterMs: number | undefined = RETRY_AFTER_MS,
): RouterEffect {
  const reply: RouteReply = { kind: 'reject', code, message };
  if (retryAfterMs !== undefined) reply.retryAfterMs = retryAfterMs;
  return { kind: 'reply', key, reply, record: undefined };
}

/** The answer to a refusal that does not wait here; undefined for one that may lift while it does. */
export function rejectForGood(
  key: number,
  refusal: Refusal,
  request: RouteRequest,
  pairRefusal: string | undefined,
): RouterEffect | undefined {
  switch (refusal) {
    case 'too-long':
      return final(key, 'the prompt does not fit the context or the cache of any worker');
    case 'no-adapter':
      // A worker may have announced it that this router has not heard of yet: who asks knows better, and may ask again.
      return reject(
        key,
        'ROUTER_NO_WORKERS',
        `no worker is known to have the adapter ${request.lora}`,
      );
    case 'no-prefill':
      return reject(key, 'ROUTER_NO_PAIR', 'no prefill worker serves this model');
    case 'no-pair': {
      const why = pairRefusal ?? 'none can take this request';
      const message = `no prefill worker makes a pair with a decode worker: ${why}`;
      return reject(key, 'ROUTER_NO_PAIR', message);
    }
    case 'full':
    case 'syncing':
    case 'silent':
    case 'draining':
    case 'excluded':
    case 'prefill-unavailable':
      return undefined;
  }
}

/**
 * The answer to a request that waited in vain. `isServed`: its model has workers; `isHeard`: one of them gives signs of life. Only
 * then is it a matter of load, also for a request that did not wait for silence but had failed on every worker before.
 */
export function rejectLate(
  key: number,
  refusal: Refusal,
  { isServed, isHeard }: { isServed: boolean; isHeard: boolean },
): RouterEffect {
  if (!isServed) return reject(key, 'ROUTER_NO_WORKERS', 'the last worker of this model left');
  const lacksPrefill =
    refusal === 'prefill-unavailable' || refusal === 'no-pair' || refusal === 'no-prefill';
  if (lacksPrefill) return reject(key, 'ROUTER_NO_PAIR', 'no prefill worker became free in time');
  return isHeard
    ? reject(key, 'ROUTER_DEADLINE', 'no worker became free in time')
    : reject(key, 'ROUTER_WORKERS_SILENT', 'no worker was heard of in time');
}

function final(key: number, message: string): RouterEffect {
  const reply: RouteReply = { kind: 'reject', code: 'ROUTER_BAD_REQUEST', message };
  return { kind: 'reply', key, reply, record: undefined };
}
