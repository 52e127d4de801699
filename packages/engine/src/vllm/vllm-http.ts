import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { messageOf } from '@busbar/base';
import type { z } from 'zod';
import { VllmError } from './errors.ts';
import { readErrorBody } from './serving/answer.ts';

/** uvicorn closes idle connections after five seconds; ours go first, so that no request meets the closing. */
const IDLE_SOCKET_MS = 3_000;
const SMALL_ANSWER_BYTES = 8_388_608;
const ERROR_BODY_BYTES = 65_536;
const DEFAULT_TIMEOUT_MS = 10_000;

export interface Answer {
  status: number;
  text: string;
}

/** Hears what becomes of one streamed request: `onChunk` any number of times, then one of the ends. */
export interface StreamHandler {
  onChunk(chunk: Buffer): void;
  /** An answer with another status than 200, with its body. */
  onRefused(answer: Answer): void;
  /** The answer is over, or was cut off. */
  onEnd(): void;
  /** No answer came. */
  onFailed(error: Error): void;
}

/** HTTP to one vLLM, over one pool of connections that stay open. */
export class VllmHttp {
  readonly url: string;
  readonly #host: string;
  readonly #port: string;
  readonly #headers: Record<string, string>;
  readonly #agent = new Agent({
    keepAlive: true,
    maxSockets: Number.POSITIVE_INFINITY,
    maxFreeSockets: 256,
    timeout: IDLE_SOCKET_MS,
  });

  /** Throws VllmError for anything but `http://host:port`. */
  constructor(url: string, apiKey?: string) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed?.protocol !== 'http:') {
      throw new VllmError('VLLM_OPTIONS', `"${url}" is no address of a vLLM (http://host:port)`);
    }
    this.url = parsed.origin;
    this.#host = parsed.hostname.replace(/^\[|\]$/g, '');
    this.#port = parsed.port || '80';
    this.#headers = {
      'content-type': 'application/json',
      ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
    };
  }

  /** Destroys every connection. */
  close(): void {
    this.#agent.destroy();
  }

  /** Sends a request whose answer is read as it comes. Destroying the result makes the engine abort. */
  stream(path: string, body: string, handler: StreamHandler): { destroy(): void } {
    let current: ClientRequest;
    let isDestroyed = false;
    const send = (mayRepeat: boolean): ClientRequest => {
      let hasAnswer = false;
      const sent = this.#request('POST', path, body, (response) => {
        hasAnswer = true;
        if (response.statusCode === 200) readStream(response, handler);
        else readRefusal(response, handler);
      });
      sent.on('error', (error) => {
        if (hasAnswer || isDestroyed) return;
        // The engine closed the idle connection in the moment in which we took it: nothing was read of the request.
        if (mayRepeat && sent.reusedSocket && isReset(error)) current = send(false);
        else handler.onFailed(error);
      });
      return sent;
    };
    current = send(true);
    return {
      destroy: () => {
        isDestroyed = true;
        current.destroy();
      },
    };
  }

  /** A whole small answer, whatever its status. Rejects with VllmError when none comes in time. */
  exchange(
    method: 'GET' | 'POST',
    path: string,
    body?: unknown,
    timeoutMs = DEFAULT_TIMEOUT_MS,
  ): Promise<Answer> {
    const what = `${method} ${this.url}${path}`;
    return new Promise((resolve, reject) => {
      const fail = (why: string, cause?: unknown): void => {
        clearTimeout(timer);
        reject(new VllmError('VLLM_ANSWER', `${what}: ${why}`, cause));
      };
      const sent = this.#request(
        method,
        path,
        body === undefined ? undefined : JSON.stringify(body),
        (response) => {
          readAll(response, SMALL_ANSWER_BYTES, (text, error) => {
            if (text === undefined) return fail(messageOf(error), error);
            clearTimeout(timer);
            resolve({ status: response.statusCode ?? 0, text });
          });
        },
      );
      const timer = setTimeout(() => {
        sent.destroy();
        fail(`no answer within ${timeoutMs} ms`);
      }, timeoutMs);
      sent.on('error', (error) => fail(messageOf(error), error));
    });
  }

  /** The JSON of an answer with status 200. Rejects with VllmError, which quotes the engine. */
  async json<T>(path: string, schema: z.ZodType<T>): Promise<T> {
    const { status, text } = await this.exchange('GET', path);
    if (status !== 200) {
      const { message } = readErrorBody(status, text);
      throw new VllmError('VLLM_ANSWER', `${this.url}${path} answers ${status}: ${message}`);
    }
    const parsed = schema.safeParse(parseOrUndefined(text));
    if (parsed.success) return parsed.data;
    throw new VllmError('VLLM_ANSWER', `${this.url}${path} does not answer as a vLLM does`);
  }

  #request(
    method: string,
    path: string,
    body: string | undefined,
    onResponse: (response: IncomingMessage) => void,
  ): ClientRequest {
    const payload = body === undefined ? undefined : Buffer.from(body);
    const sent = request(
      {
        agent: this.#agent,
        host: this.#host,
        port: this.#port,
        method,
        path,
        headers:
          payload === undefined
            ? this.#headers
            : { ...this.#headers, 'content-length': payload.length },
      },
      onResponse,
    );
    sent.end(payload);
    return sent;
  }
}

function readStream(response: IncomingMessage, handler: StreamHandler): void {
  response.on('data', (chunk: Buffer) => handler.onChunk(chunk));
  response.on('end', () => handler.onEnd());
  // After a cut connection there is no `end`.
  response.on('error', () => handler.onEnd());
}

function readRefusal(response: IncomingMessage, handler: StreamHandler): void {
  const status = response.statusCode ?? 0;
  readAll(response, ERROR_BODY_BYTES, (text) => handler.onRefused({ status, text: text ?? '' }));
}

/** Calls `done` once. A body above `maxBytes` is cut off and given as far as it was read. */
function readAll(
  response: IncomingMessage,
  maxBytes: number,
  done: (text: string | undefined, error?: unknown) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let isDone = false;
  const finish = (error?: unknown): void => {
    if (isDone) return;
    isDone = true;
    if (error !== undefined && bytes < maxBytes) done(undefined, error);
    else done(Buffer.concat(chunks).toString('utf8'));
  };
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    chunks.push(chunk);
    if (bytes >= maxBytes) response.destroy();
  });
  response.on('end', () => finish());
  response.on('error', finish);
  response.on('close', () => finish(new Error('the connection was cut')));
}

function isReset(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ECONNRESET' || error.code === 'EPIPE';
}

function parseOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
