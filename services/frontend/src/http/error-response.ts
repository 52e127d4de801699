import type { ServerResponse } from 'node:http';
import { AppError, messageOf } from '@busbar/base';
import { errorBody, type Problem, type ProblemType } from '@busbar/openai';

interface Answer {
  status: number;
  type: ProblemType;
  code: string;
  /** Sent instead of the error's own message, which may speak of the inside. */
  message?: string;
}

const busy = (code: string, message?: string): Answer => ({
  status: 429,
  type: 'rate_limit_error',
  code,
  ...(message === undefined ? {} : { message }),
});
const unavailable = (code: string, message?: string): Answer => ({
  status: 503,
  type: 'server_error',
  code,
  ...(message === undefined ? {} : { message }),
});
const badRequest = (code: string): Answer => ({ status: 400, type: 'invalid_request_error', code });

const BUS_DOWN = 'The server has lost its message bus for the moment.';
const NO_ROUTER = 'No router is there to place the request.';
const FAULT: Answer = { ...unavailable('worker_fault', 'The worker failed.'), status: 502 };
const INTERNAL: Answer = {
  status: 500,
  type: 'server_error',
  code: 'internal_error',
  message: 'The server failed to answer this request.',
};

/** The one table from error codes to what a client sees. Codes that are not here are 500. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  FRONTEND_DRAINING: unavailable('draining'),
  FRONTEND_FULL: busy('too_many_requests'),
  FRONTEND_BUS_DOWN: unavailable('bus_unavailable', BUS_DOWN),
  FRONTEND_NO_ROUTER: unavailable('no_router', NO_ROUTER),
  FRONTEND_ROUTER_SILENT: unavailable('no_router', 'The router did not answer in time.'),
  FRONTEND_WORKER_LOST: unavailable('worker_lost', 'The worker of this request is gone.'),
  FRONTEND_TOKENS_LOST: unavailable('tokens_lost', 'A part of the answer was lost on its way.'),
  FRONTEND_PREFILL_FAILED: unavailable('prefill_failed'),
  FRONTEND_MODEL_UNAVAILABLE: unavailable('model_unavailable'),
  BUS_DISCONNECTED: unavailable('bus_unavailable', BUS_DOWN),
  BUS_CLOSED: unavailable('bus_unavailable', BUS_DOWN),
  BUS_NO_RESPONDERS: unavailable('no_router', NO_ROUTER),
  BUS_TIMEOUT: unavailable('bus_timeout', 'A process of the server did not answer in time.'),
  BUS_TOO_LARGE: { ...badRequest('request_too_large'), status: 413 },
  ROUTER_NO_WORKERS: unavailable('no_workers', 'No worker of this model is there.'),
  ROUTER_NO_CAPACITY: unavailable('no_capacity'),
  ROUTER_NO_PAIR: unavailable('no_pair'),
  ROUTER_QUEUE_FULL: busy('queue_full', 'Too many requests are waiting.'),
  ROUTER_WORKERS_SILENT: unavailable('no_workers', 'No worker of this model answers.'),
  ROUTER_DEADLINE: busy('queue_timeout', 'No worker became free in time.'),
  ROUTER_BAD_REQUEST: badRequest('invalid_value'),
  WORKER_FULL: busy('workers_full', 'All workers of this model are full.'),
  WORKER_DRAINING: unavailable('no_workers', 'No worker of this model is there.'),
  WORKER_BAD_REQUEST: badRequest('invalid_value'),
  WORKER_TOO_LONG: badRequest('context_length_exceeded'),
  WORKER_NO_MODEL: { ...badRequest('model_not_found'), status: 404 },
  WORKER_FAULT: FAULT,
  WORKER_KV_LOST: FAULT,
  WORKER_WRONG_KIND: FAULT,
  TOKENIZER_TEMPLATE: badRequest('invalid_messages'),
  TOKENIZER_BUSY: busy('too_many_requests', 'Too many long prompts are waiting.'),
};

/** The part of the request to which an error belongs. */
const PARAMS: Readonly<Record<string, string>> = {
  TOKENIZER_TEMPLATE: 'messages',
  WORKER_NO_MODEL: 'model',
};

/** How a client is told of anything that was thrown. */
export function problemOf(error: unknown): Problem {
  const answer = error instanceof AppError ? (ANSWERS[error.code] ?? INTERNAL) : INTERNAL;
  return {
    status: answer.status,
    type: answer.type,
    message: answer.message ?? messageOf(error),
    param: error instanceof AppError ? (PARAMS[error.code] ?? null) : null,
    code: answer.code,
  };
}

export interface ProblemHeaders {
  /** Seconds; 1 when absent on 429 and 503. */
  retryAfterSec?: number;
  /** Close the connection behind the answer. */
  isLast?: boolean;
  allow?: string;
}

/** Answers with the error envelope. Does nothing when an answer has begun or the client is gone. */
export function sendProblem(
  response: ServerResponse,
  problem: Problem,
  { retryAfterSec = 1, isLast = false, allow }: ProblemHeaders = {},
): void {
  if (response.headersSent || response.destroyed) return;
  const body = errorBody(problem);
  if (problem.status === 429 || problem.status === 503) {
    response.setHeader('retry-after', String(retryAfterSec));
  }
  if (isLast) response.setHeader('connection', 'close');
  if (allow !== undefined) response.setHeader('allow', allow);
  sendJson(response, problem.status, body);
}

export function sendJson(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}
