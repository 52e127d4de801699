import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { messageOf } from '@busbar/base';
import type { Registry } from 'prom-client';
import { type AdminAction, runAction } from './admin-action.ts';
import type { Readiness } from './port.ts';
import { portError } from './port-error.ts';
import { advertisedHost } from './reachable-host.ts';
import { sendJson } from './send-json.ts';

const MAX_CONNECTIONS = 128;
const REQUEST_TIMEOUT_MS = 10_000;
/** Paths of every admin server, which GET and HEAD read. */
const BUILT_IN: readonly string[] = ['/live', '/ready', '/health', '/metrics'];

export interface AdminOptions {
  host: string;
  port: number;
  registry: Registry;
  readiness: () => Readiness;
  /** Asked at each request, so that routes may appear after the start. */
  routes: () => Readonly<Record<string, () => unknown>>;
  /** POST routes, likewise. */
  actions?: () => Readonly<Record<string, AdminAction>>;
  /** Added to the metrics of the registry. */
  metricsText?: () => Promise<string>;
}

export interface AdminServer {
  /** With the real port, and with an address that other machines can use when the server listens on all of them. */
  readonly url: string;
  close(): Promise<void>;
}

/** Serves /live, /ready, /health, /metrics and the service's own routes. Rejects with SERVICE_ADMIN_PORT. */
export async function startAdminServer(options: AdminOptions): Promise<AdminServer> {
  const server = createServer((request, response) => {
    answer(options, request, response).catch((error: unknown) => {
      sendJson(response, 500, { status: 'error', message: messageOf(error) });
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  await listen(server, options);
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : options.port;
  return {
    url: `http://${advertisedHost(options.host)}:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listen(server: Server, { host, port }: AdminOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const variables = { variable: 'BUSBAR_ADMIN_PORT', hostVariable: 'BUSBAR_ADMIN_HOST' };
      const fault = { what: 'Admin port', host, port, ...variables };
      reject(portError(error, { ...fault, code: 'SERVICE_ADMIN_PORT' }));
    });
    server.listen(port, host, () => resolve());
  });
}

async function answer(
  options: AdminOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
  const actions = options.actions?.() ?? {};
  const action = Object.hasOwn(actions, path) ? actions[path] : undefined;
  if (action !== undefined) {
    if (request.method === 'POST') return runAction(action, request, response);
    response.setHeader('allow', 'POST');
    return sendJson(response, 405, { status: 'error', message: 'only POST' });
  }
  const routes = options.routes();
  const isKnown = BUILT_IN.includes(path) || Object.hasOwn(routes, path);
  if (!isKnown) {
    const paths = [...BUILT_IN, ...Object.keys(routes)];
    const posts = Object.keys(actions).map((name) => `POST ${name}`);
    const message = `no such path; there are ${[...paths, ...posts].join(', ')}`;
    return sendJson(response, 404, { status: 'error', message });
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    return sendJson(response, 405, { status: 'error', message: 'only GET and HEAD' });
  }
  if (path === '/live') return sendJson(response, 200, { status: 'live' });
  if (path === '/ready' || path === '/health') {
    const readiness = options.readiness();
    return sendJson(response, readiness.status === 'unready' ? 503 : 200, readiness);
  }
  if (path === '/metrics') {
    response.setHeader('content-type', options.registry.contentType);
    const own = await options.registry.metrics();
    // What another process says must not cost this process its own page.
    const more = (await options.metricsText?.().catch(() => '')) ?? '';
    response.end(more === '' ? own : `${own}\n${more}`);
    return;
  }
  sendJson(response, 200, routes[path]?.());
}
