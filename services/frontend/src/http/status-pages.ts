import type { ServerResponse } from 'node:http';
import { type ModelEntry, modelBody, modelListBody } from '@busbar/openai';
import type { ServiceContext } from '@busbar/service';
import { unavailableModel, unknownModel } from '../models/model-problems.ts';
import type { FoundModel, ModelRegistry } from '../models/model-registry.ts';
import { sendJson, sendProblem } from './error-response.ts';

/** The GET endpoints: what is served, and how well. */
export class StatusPages {
  readonly #context: ServiceContext;
  readonly #registry: ModelRegistry;

  constructor(context: ServiceContext, registry: ModelRegistry) {
    this.#context = context;
    this.#registry = registry;
  }

  models(response: ServerResponse): void {
    const models = this.#registry.listed().map((model) => toEntry({ model, lora: undefined }));
    const adapters = this.#registry.adapters();
    const entries = adapters.map(({ name, model }) => toEntry({ model, lora: name }));
    sendJson(response, 200, modelListBody([...models, ...entries]));
  }

  model(response: ServerResponse, name: string): void {
    const found = this.#registry.lookup(name);
    if (found.kind === 'ready') sendJson(response, 200, modelBody(toEntry(found)));
    else if (found.kind === 'unknown') sendProblem(response, unknownModel(name));
    else sendProblem(response, unavailableModel(name, found.reason));
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

function toEntry({ model: { card }, lora }: FoundModel): ModelEntry {
  const createdMs = Date.parse(card.createdAt);
  return {
    id: lora ?? card.name,
    created: Number.isNaN(createdMs) ? 0 : Math.floor(createdMs / 1_000),
    contextTokens: card.contextTokens,
    ...(lora === undefined ? {} : { parent: card.name }),
  };
}
