import type { ServerResponse } from 'node:http';
import { invalid, type ModelEntry, modelBody, modelListBody } from '@busbar/openai';
import type { ServiceContext } from '@busbar/service';
import { sendJson, sendProblem } from './error-response.ts';
import type { ServedModel } from './model-loader.ts';
import type { ModelRegistry } from './model-registry.ts';

/** The GET endpoints: what is served, and how well. */
export class StatusPages {
  readonly #context: ServiceContext;
  readonly #registry: ModelRegistry;

  constructor(context: ServiceContext, registry: ModelRegistry) {
    this.#context = context;
    this.#registry = registry;
  }

  models(response: ServerResponse): void {
    sendJson(response, 200, modelListBody(this.#registry.listed().map(toEntry)));
  }

  model(response: ServerResponse, name: string): void {
    const model = this.#registry.listed().find(({ card }) => card.name === name);
    if (model !== undefined) return sendJson(response, 200, modelBody(toEntry(model)));
    const found = this.#registry.lookup(name);
    const reason = found.kind === 'unavailable' ? `cannot answer now: ${found.reason}` : undefined;
    sendProblem(
      response,
      reason === undefined
        ? invalid('The model does not exist.', 'model', 'model_not_found', 404)
        : {
            status: 503,
            type: 'server_error',
            message: `The model ${reason}.`,
            param: 'model',
            code: 'model_unavailable',
          },
    );
  }

  /** 200 while at least one model can answer; the reasons say what is missing or worse than it should be. */
  ready(response: ServerResponse): void {
    const { status, checks } = this.#context.readiness();
    const reasons = checks
      .filter((check) => !check.ok || check.isDegraded === true)
      .map((check) => check.detail);
    const models = this.#registry.listed().map(({ card }) => card.name);
    const body = JSON.stringify({ status, reasons, models });
    sendJson(response, status === 'unready' ? 503 : 200, body);
  }

  health(response: ServerResponse): void {
    const readiness = this.#context.readiness();
    const body = JSON.stringify({ ...readiness, models: this.#models() });
    sendJson(response, readiness.status === 'unready' ? 503 : 200, body);
  }

  live(response: ServerResponse): void {
    sendJson(response, 200, '{"status":"live"}');
  }

  async metrics(response: ServerResponse): Promise<void> {
    const { registry } = this.#context;
    const body = await registry.metrics();
    response.writeHead(200, { 'content-type': registry.contentType });
    response.end(body);
  }

  #models(): object[] {
    return this.#registry.listed().map(({ card, tokenizer }) => ({
      name: card.name,
      contextTokens: card.contextTokens,
      blockSize: card.blockSize,
      encoder: tokenizer.encoderKind,
      notes: tokenizer.notes,
    }));
  }
}

function toEntry({ card }: ServedModel): ModelEntry {
  const createdMs = Date.parse(card.createdAt);
  return {
    id: card.name,
    created: Number.isNaN(createdMs) ? 0 : Math.floor(createdMs / 1_000),
    contextTokens: card.contextTokens,
  };
}
