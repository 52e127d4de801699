import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { limit } from '@busbar/protocol';

const SAFE = /^[A-Za-z0-9._-]+$/;

/**
 * The id that goes back in `x-request-id`: the client's own when it is made of safe characters, cut to the limit, else a
 * new one. It is for tracing only; streams, chunks and subjects never use it.
 */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  if (typeof given === 'string' && SAFE.test(given)) return given.slice(0, limit('requestIdChars'));
  return `req-${randomHex()}`;
}

/** 32 random hex digits. */
export function randomHex(): string {
  return randomUUID().replaceAll('-', '');
}
