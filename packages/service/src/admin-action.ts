import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppError, messageOf } from '@busbar/base';
import { z } from 'zod';
import { sendJson } from './send-json.ts';

/** Names and paths; nothing that is sent to an admin port is long. */
const MAX_BODY_BYTES = 65_536;
/** Adapters are read from disks, and memory of accelerators is moved: minutes, not hours. */
const ACTION_MS = 300_000;

/** What a POST to the admin port does. Made by `adminAction`. */
export interface AdminAction {
  /** Rejects with ZodError for a body of another shape. */
  run(body: unknown): Promise<unknown>;
}

/** An action whose body has the shape of `schema`; what `run` resolves with is the answer's JSON. */
export function adminAction<Body>(
  schema: z.ZodType<Body>,
  run: (body: Body) => Promise<unknown>,
): AdminAction {
  return { run: async (body) => run(await schema.parseAsync(body)) };
}

/**
 * Reads the body, runs the action and answers. The body must be called JSON: a page in a browser cannot send that to another
 * origin without asking first.
 */
export async function runAction(
  action: AdminAction,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const type = request.headers['content-type'] ?? '';
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    return refuse(request, response, 415, 'content-type must be application/json');
  }
  const text = await readBody(request);
  if (text === undefined) {
    return refuse(request, response, 413, `the body is larger than ${MAX_BODY_BYTES} bytes`);
  }
  let body: unknown;
  try {
    body = JSON.parse(text === '' ? '{}' : text);
  } catch {
    return refuse(request, response, 400, 'the body is not JSON');
  }
  try {
    const answer = await withLimit(action.run(body));
    sendJson(response, 200, answer ?? { status: 'done' });
  } catch (error) {
    sendFailure(response, error);
  }
}

function sendFailure(response: ServerResponse, error: unknown): void {
  if (error instanceof z.ZodError) {
    sendJson(response, 400, { status: 'error', message: problemsOf(error) });
  } else if (error instanceof AppError) {
    const { code, message, retryable } = error;
    sendJson(response, retryable ? 503 : 409, { status: 'error', code, message });
  } else sendJson(response, 500, { status: 'error', message: messageOf(error) });
}

/** `name: Invalid input: expected string, received undefined`, joined on one line. */
function problemsOf({ issues }: z.ZodError): string {
  return issues.map(({ path, message }) => [...path, message].join(': ')).join('; ');
}

/** The rest of the body is not read: the connection ends with the answer. */
function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  message: string,
): void {
  response.setHeader('connection', 'close');
  sendJson(response, status, { status: 'error', message });
  request.resume();
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of request.iterator({ destroyOnReturn: false })) {
    bytes += piece.length;
    if (bytes > MAX_BODY_BYTES) return undefined;
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}

async function withLimit(running: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`not done within ${ACTION_MS / 1000} s; it may still come to pass`)),
      ACTION_MS,
    );
  });
  try {
    return await Promise.race([running, limit]);
  } finally {
    clearTimeout(timer);
  }
}
