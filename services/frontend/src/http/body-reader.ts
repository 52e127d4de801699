import type { IncomingMessage } from 'node:http';
import { type Checked, invalid } from '@busbar/openai';
import { limit } from '@busbar/protocol';
import { FrontendError } from '../errors.ts';
import { BodyBuffer } from './body-buffer.ts';

/** A client that still writes when the connection closes sees a broken pipe and not the answer; so far it may go on. */
const DRAIN_FACTOR = 4;
/** Bodies up to this size are always read, so that a few senders of large ones cannot keep all others out. */
const SMALL_BYTES = 262_144;
const decoder = new TextDecoder('utf-8', { fatal: true });
/** Bytes of all bodies that are being read in this process. */
let openBytes = 0;

/**
 * Reads a JSON body as text. Problems: 415 for another type or charset or a compressed body, 413 above the limit (the rest is
 * thrown away unread up to `DRAIN_FACTOR` limits), 400 for bytes that are not UTF-8. Undefined when the client left before the end.
 * Rejects with FRONTEND_FULL when the bodies that are being read take too much memory together.
 */
export function readBody(request: IncomingMessage): Promise<Checked<string> | undefined> {
  const type = request.headers['content-type'];
  if (type !== undefined && !/^application\/(?:[a-z0-9.-]+\+)?json\s*(?:;|$)/i.test(type)) {
    return Promise.resolve(unsupported('The content type must be application/json.'));
  }
  const charset = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(type ?? '')?.[1];
  if (charset !== undefined && !/^(?:utf-?8|us-ascii)$/i.test(charset)) {
    return Promise.resolve(unsupported('The charset must be UTF-8.'));
  }
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity') {
    return Promise.resolve(unsupported('Compressed bodies are not supported.'));
  }
  const maxBytes = limit('bodyBytes');
  const drainBytes = maxBytes * DRAIN_FACTOR;
  if (Number(request.headers['content-length'] ?? 0) > drainBytes) {
    return Promise.resolve(tooLarge(maxBytes));
  }
  return new Promise((resolve, reject) => {
    const body = new BodyBuffer();
    let bytes = 0;
    let heldBytes = 0;
    let isCrowdedOut = false;
    const release = (): void => {
      body.clear();
      openBytes -= heldBytes;
      heldBytes = 0;
    };
    request.on('data', (piece: Buffer) => {
      bytes += piece.length;
      isCrowdedOut ||= bytes > SMALL_BYTES && openBytes + piece.length > limit('openBodyBytes');
      if (bytes > drainBytes) {
        request.pause();
        resolve(tooLarge(maxBytes));
      } else if (isCrowdedOut || bytes > maxBytes) release();
      else {
        openBytes += piece.length;
        heldBytes += piece.length;
        body.append(piece);
      }
    });
    request.on('end', () => {
      if (bytes > maxBytes) resolve(tooLarge(maxBytes));
      else if (isCrowdedOut) reject(crowdedOut());
      else resolve(decode(body.whole));
      release();
    });
    const leave = (): void => {
      release();
      resolve(undefined);
    };
    request.on('close', leave);
    request.on('error', leave);
  });
}

function crowdedOut(): FrontendError {
  return new FrontendError('FRONTEND_FULL', 'Too many large requests are being sent.');
}

function decode(bytes: Buffer): Checked<string> {
  try {
    return { ok: true, value: decoder.decode(bytes) };
  } catch {
    return {
      ok: false,
      problem: invalid('The request body is not UTF-8.', null, 'invalid_json'),
    };
  }
}

function unsupported(message: string): Checked<string> {
  return { ok: false, problem: invalid(message, null, 'unsupported_media_type', 415) };
}

function tooLarge(maxBytes: number): Checked<string> {
  const message = `The request body is larger than ${maxBytes} bytes.`;
  return { ok: false, problem: invalid(message, null, 'body_too_large', 413) };
}
