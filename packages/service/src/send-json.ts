import type { ServerResponse } from 'node:http';

/** Answers with one line of JSON; of an answer that has begun already, all that can be done is to break it off. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify(body)}\n`);
}
