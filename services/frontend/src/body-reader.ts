import type { IncomingMessage } from 'node:http';
import { type Checked, invalid } from '@busbar/openai';
import { limit } from '@busbar/protocol';

/** A client that still writes when the connection closes sees a broken pipe and not the answer; so far it may go on. */
const DRAIN_FACTOR = 4;
const decoder = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads a JSON body as text. Problems: 415 for another type or a compressed body, 413 above the limit (the rest is
 * thrown away unread up to `DRAIN_FACTOR` limits), 400 for bytes that are not UTF-8. Undefined when the client left before the end.
 */
export function readBody(request: IncomingMessage): Promise<Checked<string> | undefined> {
  const type = request.headers['content-type'];
  if (type !== undefined && !/^application\/(?:[a-z0-9.-]+\+)?json\s*(?:;|$)/i.test(type)) {
    return Promise.resolve(unsupported('The content type must be application/json.'));
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
  return new Promise((resolve) => {
    let chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) chunks.push(chunk);
      else if (bytes <= drainBytes) chunks = [];
      else {
        request.pause();
        resolve(tooLarge(maxBytes));
      }
    });
    request.on('end', () => {
      if (bytes > maxBytes) resolve(tooLarge(maxBytes));
      else resolve(decode(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    });
    request.on('close', () => resolve(undefined));
    request.on('error', () => resolve(undefined));
  });
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
