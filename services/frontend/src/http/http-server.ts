import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorBody, invalid } from '@busbar/openai';
import { limit } from '@busbar/protocol';
import { portError } from '@busbar/service';
import { AnswerWatch } from './answer-watch.ts';
import { problemOf, sendProblem } from './error-response.ts';
import { requestIdOf } from './request-id.ts';

/** Longer than the idle time of usual load balancers (60 s), so that they close first. */
const KEEP_ALIVE_MS = 75_000;
const HEADERS_MS = 30_000;
/** A whole body must arrive within this. */
const REQUEST_MS = 120_000;
const IDLE_POLL_MS = 20;
/** Time for error events of streams that did not end in time. */
const LAST_EVENTS_MS = 200;
/** A peer that was told that it speaks no HTTP has so long to read it. */
const LINGER_MS = 1_000;

export type RouteHandler = (
  request: IncomingMessage,
  response: ServerResponse,
) => void | Promise<void>;

export interface Routes {
  /** Exact path, then method. */
  exact: Readonly<Record<string, Readonly<Record<string, RouteHandler>>>>;
  /** GET of everything below a path that ends with "/"; called with the rest, decoded. */
  below: Readonly<Record<string, (rest: string, response: ServerResponse) => void>>;
}

export interface HttpOptions {
  host: string;
  port: number;
  reusePort: boolean;
  routes: Routes;
  onFault: (error: unknown) => void;
  /** Time in which a client must take some of what waits for it; `clientStallMs` of the limits when absent. */
  stallMs?: number;
}

export interface HttpServer {
  /** With the real port. */
  readonly url: string;
  /** Closes connections that have no request, unless the end of an answer still waits for its reader. */
  closeIdle(): void;
  /** Stops to listen; resolves when the last answer has reached its socket, or `signal` fires. */
  finish(signal: AbortSignal): Promise<void>;
  /** Ends everything at once. */
  close(): Promise<void>;
}

/** Listens with Node's own HTTP server. Rejects with SERVICE_PORT and a sentence for the operator. */
export async function startHttpServer(options: HttpOptions): Promise<HttpServer> {
  const answers = new AnswerWatch(options.stallMs ?? limit('clientStallMs'));
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE_MS,
      headersTimeout: HEADERS_MS,
      requestTimeout: REQUEST_MS,
      // Node would refuse without an envelope, and no answer depends on the name.
      requireHostHeader: false,
    },
    (request, response) => {
      answers.add(response);
      response.setHeader('x-request-id', requestIdOf(request));
      dispatch(options, request, response);
    },
  );
  server.on('clientError', onClientError);
  server.on('checkExpectation', refuseExpectation);
  await listen(server, options);
  server.on('error', options.onFault);
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : options.port;
  const host = options.host.includes(':') ? `[${options.host}]` : options.host;
  return {
    url: `http://${host}:${port}`,
    closeIdle() {
      if (!answers.hasUnread) server.closeIdleConnections();
    },
    finish: (signal) => finish(server, answers, signal),
    close: () =>
      new Promise((resolve) => {
        answers.stop();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Node counts a connection as idle when its answer has ended, though the client may still have to read the last of it. */
function finish(server: Server, answers: AnswerWatch, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearInterval(timer);
      resolve();
    };
    // A kept-alive connection becomes idle when its answer ends, and nothing tells of it.
    const closeIdle = (): void => {
      if (answers.hasUnread) return;
      if (server.listening) server.close(end);
      // A connection on which nothing was ever asked is not idle to Node.
      else if (answers.isEmpty) server.closeAllConnections();
      else server.closeIdleConnections();
    };
    const timer = setInterval(closeIdle, IDLE_POLL_MS);
    closeIdle();
    if (signal.aborted) setTimeout(end, LAST_EVENTS_MS);
    else signal.addEventListener('abort', () => setTimeout(end, LAST_EVENTS_MS), { once: true });
  });
}

function dispatch(
  { routes, onFault }: HttpOptions,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const fail = (error: unknown): void => {
    onFault(error);
    sendProblem(response, problemOf(error));
  };
  try {
    const handler = findRoute(routes, request, response);
    const running = handler?.(request, response);
    if (running instanceof Promise) running.catch(fail);
  } catch (error) {
    fail(error);
  }
}

/** The handler, or undefined after the request was answered with 404, 405 or 400. */
function findRoute(
  routes: Routes,
  request: IncomingMessage,
  response: ServerResponse,
): RouteHandler | undefined {
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? 'GET');
  if (Object.hasOwn(routes.exact, path)) {
    const methods = routes.exact[path] ?? {};
    if (Object.hasOwn(methods, method)) return methods[method];
    return refuseMethod(response, Object.keys(methods).join(', '));
  }
  for (const [prefix, handler] of Object.entries(routes.below)) {
    if (!path.startsWith(prefix) || path === prefix) continue;
    if (method !== 'GET') return refuseMethod(response, 'GET');
    const rest = decodePath(path.slice(prefix.length));
    if (rest !== undefined) return () => handler(rest, response);
  }
  const known = Object.keys(routes.exact).join(', ');
  sendProblem(
    response,
    invalid(`There is no such path. There are ${known}.`, null, 'not_found', 404),
  );
  return undefined;
}

function refuseMethod(response: ServerResponse, allow: string): undefined {
  const problem = invalid(`This path takes ${allow}.`, null, 'method_not_allowed', 405);
  sendProblem(response, problem, { allow });
  return undefined;
}

function decodePath(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

function refuseExpectation(_: IncomingMessage, response: ServerResponse): void {
  const problem = invalid('Only "Expect: 100-continue" is known.', null, 'expectation_failed', 417);
  sendProblem(response, problem, { isLast: true });
}

/** Bytes that are no HTTP request: the envelope all the same, then the connection ends. */
function onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const problem =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? invalid('The request headers are too large.', null, 'headers_too_large', 431)
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? invalid('The request did not arrive in time.', null, 'request_timeout', 408)
        : invalid('This is not an HTTP request.', null, 'bad_request');
  const body = errorBody(problem);
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.end(
    `HTTP/1.1 ${problem.status} Bad Request\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function listen(server: Server, { host, port, reusePort }: HttpOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const variables = { variable: 'BUSBAR_HTTP_PORT', hostVariable: 'BUSBAR_HTTP_HOST' };
      const fault = { what: 'Port', host, port, ...variables };
      reject(portError(error, { ...fault, code: 'SERVICE_PORT' }));
    });
    server.listen({ host, port, ...(reusePort ? { reusePort: true, exclusive: true } : {}) }, () =>
      resolve(),
    );
  });
}
