// Speaks as vLLM does, as far as the adapter asks, around the mock engine. Only tests and benchmarks import it.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { PROFILES } from '@busbar/mocker';
import { z } from 'zod';
import { createMockEngine } from '../mock-engine.ts';
import type { Engine, EngineDelta, EngineRequest, EngineStep } from '../port.ts';
import { FakeEvents } from './fake-events.testing.ts';
import { FakePublisher, type FakePublisherOptions } from './kv-events/fake-publisher.testing.ts';

export interface FakeVllmOptions {
  blockSize: number;
  kvBlocks: number;
  contextTokens: number;
  port?: number;
  version?: string;
  /** `/inference/v1/generate` answers; otherwise 403, as without --enable-scale-out. */
  hasScaleOut?: boolean;
  /** A reset of the cache is answered as while blocks are in use. */
  keepsCache?: boolean;
  /** NixlConnector is configured. */
  hasConnector?: boolean;
  leaseMs?: number;
  events?: FakePublisherOptions;
}

/** What the next request gets instead of its answer. */
export type Misbehaviour =
  /** HTTP 200 with finish_reason "abort" and no token, as in a shutdown. */
  | { kind: 'abort' }
  /** Neither headers nor a body, ever. */
  | { kind: 'hang' }
  /** Two tokens, then the connection is cut. */
  | { kind: 'die' }
  /** Two tokens, then silence. */
  | { kind: 'stall' }
  /** These bytes, one write each, then the end. */
  | { kind: 'bytes'; status?: number; writes: readonly Buffer[] };

const bodySchema = z.looseObject({
  token_ids: z.array(z.int()).optional(),
  prompt: z.array(z.int()).optional(),
  sampling_params: z.looseObject({}).optional(),
  model: z.string().optional(),
  stream: z.boolean().optional(),
  cache_salt: z.string().optional(),
  kv_transfer_params: z.looseObject({}).nullish(),
});
type Body = z.infer<typeof bodySchema>;
const paramsSchema = z.looseObject({
  max_tokens: z.int(),
  min_tokens: z.int().default(0),
  ignore_eos: z.boolean().default(false),
  stop_token_ids: z.array(z.int()).default([]),
  seed: z.int().optional(),
});

interface Call {
  response: ServerResponse;
  body: Body;
  api: 'generate' | 'completions';
  tokens: number[];
  cachedTokens: number;
  misbehaviour: Misbehaviour | undefined;
}

const NOT_FOUND: [number, unknown] = [404, { detail: 'Not Found' }];
const clock = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };
/** Side channels by `host:port`: how a decode engine finds the one that prefilled. */
const channels = new Map<string, FakeVllm>();
let nextChannel = 40_000;

export class FakeVllm {
  /** Bodies of all requests for tokens, oldest first. */
  readonly bodies: Body[] = [];
  readonly aborted: number[] = [];
  readonly staged = new Map<string, NodeJS.Timeout>();
  url = '';
  readonly channel = nextChannel++;
  engineId = `engine-${this.channel}`;
  /** Reported sizes; a test may change them to play a vLLM that came back as another. */
  blockSize: number;
  cacheDtype = 'auto';
  kvLayout = 'None';
  modelPath = '/models/tiny';
  /** Body of `GET /kv_event_sources`, where there is such a route. */
  eventSources: string | undefined;
  /** Undefined: not told, as with PROMETHEUS_DISABLE_CREATED_SERIES. */
  startedAt: number | undefined = 1_796_000_000;
  expired = 0;
  isHealthy = true;
  next: Misbehaviour | undefined;
  readonly #options: FakeVllmOptions;
  readonly #engine: Engine;
  readonly #events: FakeEvents;
  readonly #calls = new Map<number, Call>();
  readonly #loras = new Set<string>();
  readonly #server: Server;
  #key = 1;

  private constructor(options: FakeVllmOptions, publisher: FakePublisher | undefined) {
    this.#options = options;
    this.blockSize = options.blockSize;
    this.#events = new FakeEvents(options.blockSize, publisher);
    this.#server = createServer((request, response) => void this.#onRequest(request, response));
    this.#engine = createMockEngine({
      model: 'tiny',
      role: 'decode',
      emitKvEvents: true,
      clock,
      mocker: {
        blockSize: options.blockSize,
        kvBlocks: options.kvBlocks,
        contextTokens: options.contextTokens,
        profile: PROFILES['instant']!,
        speed: 1,
        script: [Uint32Array.from({ length: 40 }, (_, at) => 100 + at)],
        eosTokenIds: [2],
      },
    });
  }

  static async start(options: FakeVllmOptions): Promise<FakeVllm> {
    const publisher =
      options.events === undefined ? undefined : await FakePublisher.open(options.events);
    const fake = new FakeVllm(options, publisher);
    channels.set(`127.0.0.1:${fake.channel}`, fake);
    await fake.#engine.start(
      {
        onStep: (step) => void fake.#onStep(step),
        onKv: ({ changes }) => fake.#events.add(changes),
        onCacheReset: () => {},
        onStagedEnd: () => {},
        onFetchBegin: () => {},
        onFetchEnd: () => {},
        onInfo: () => {},
        onFault: (error) => {
          throw error;
        },
      },
      new AbortController().signal,
    );
    await new Promise<void>((resolve) => {
      fake.#server.listen(options.port ?? 0, '127.0.0.1', resolve);
    });
    const address = fake.#server.address();
    if (typeof address === 'object') fake.url = `http://127.0.0.1:${address?.port}`;
    return fake;
  }

  /** Requests that the engine works on. */
  get running(): number {
    return this.#calls.size;
  }

  /** The process of before is gone, and its blocks with it. */
  loseKv(): void {
    for (const timer of this.staged.values()) clearTimeout(timer);
    this.staged.clear();
  }

  async close(): Promise<void> {
    channels.delete(`127.0.0.1:${this.channel}`);
    this.loseKv();
    this.#events.close();
    this.#server.closeAllConnections();
    await this.#engine.stop();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #onRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '/', 'http://fake');
    request.setEncoding('utf8');
    let text = '';
    for await (const chunk of request) text += String(chunk);
    const isGenerate = pathname === '/inference/v1/generate';
    if (isGenerate && this.#options.hasScaleOut === false) return refuse(response, 403, 'closed');
    if (isGenerate || pathname === '/v1/completions') {
      return this.#onTokens(isGenerate ? 'generate' : 'completions', text, response);
    }
    const [status, answer] = this.#answer(`${request.method} ${pathname}`, text);
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer));
  }

  #answer(route: string, text: string): [status: number, answer: unknown] {
    switch (route) {
      case 'GET /health':
        return [this.isHealthy ? 200 : 503, ''];
      case 'GET /version':
        return [200, { version: this.#options.version ?? '0.32.0' }];
      case 'GET /v1/models':
        return [200, { object: 'list', data: this.#models() }];
      case 'GET /metrics':
        return [200, this.#metrics()];
      case 'GET /is_sleeping':
        return [200, { is_sleeping: false }];
      case 'POST /reset_prefix_cache':
        if (this.#options.keepsCache === true) return [200, { success: false }];
        void this.#engine.resetCache();
        return [200, { success: true }];
      case 'POST /v1/load_lora_adapter':
        return this.#onLora(text, (name) => this.#loras.add(name).size > 0);
      case 'POST /v1/unload_lora_adapter':
        return this.#onLora(text, (name) => this.#loras.delete(name));
      case 'GET /kv_event_sources':
        return this.eventSources === undefined ? NOT_FOUND : [200, this.eventSources];
      default:
        return NOT_FOUND;
    }
  }

  #onLora(text: string, change: (name: string) => boolean): [number, unknown] {
    const { lora_name: name } = z.object({ lora_name: z.string() }).parse(JSON.parse(text));
    const message = `The lora adapter '${name}' cannot be found.`;
    return change(name) ? [200, 'Success'] : [404, { error: { message, code: 404 } }];
  }

  #models(): unknown[] {
    const { contextTokens } = this.#options;
    const base = { id: 'tiny', root: this.modelPath, parent: null, max_model_len: contextTokens };
    return [base, ...[...this.#loras].map((id) => ({ id, root: `/loras/${id}`, parent: 'tiny' }))];
  }

  #metrics(): string {
    const labels = `block_size="${this.blockSize}",cache_dtype="${this.cacheDtype}",enable_prefix_caching="True",engine="0",kv_cache_layout="${this.kvLayout}",num_gpu_blocks="${this.#options.kvBlocks}"`;
    return [
      '# TYPE vllm:cache_config_info gauge',
      `vllm:cache_config_info{${labels}} 1.0`,
      ...(this.startedAt === undefined
        ? []
        : [`vllm:prompt_tokens_created{engine="0"} ${this.startedAt}`]),
      `vllm:nixl_num_kv_expired_reqs_total{engine="0"} ${this.expired}`,
      '',
    ].join('\n');
  }

  #onTokens(api: Call['api'], text: string, response: ServerResponse): void {
    const parsed = bodySchema.safeParse(JSON.parse(text));
    const body = parsed.data;
    const tokens = body?.token_ids ?? body?.prompt ?? [];
    const params = paramsSchema.safeParse(
      api === 'generate' ? body?.sampling_params : JSON.parse(text),
    );
    if (body === undefined || tokens.length === 0 || !params.success) {
      return refuse(response, 400, '1 validation error');
    }
    this.bodies.push(body);
    if (!this.#hasKv(body)) return refuse(response, 500, 'Internal server error', body.stream);
    const misbehaviour = this.next;
    this.next = undefined;
    const key = this.#key++;
    const call: Call = { response, body, api, tokens: [], cachedTokens: 0, misbehaviour };
    if (misbehaviour?.kind === 'hang') return;
    if (misbehaviour?.kind === 'bytes') return sendBytes(response, misbehaviour);
    if (misbehaviour?.kind === 'abort') {
      this.#write(call, { key, tokens: new Uint32Array(0), finish: 'none' }, 'abort');
      return;
    }
    const request = toRequest(key, tokens, body, params.data);
    this.#events.begin(request);
    this.#calls.set(key, call);
    this.#engine.submit(request);
    response.on('close', () => {
      if (!this.#calls.delete(key)) return;
      this.aborted.push(key);
      this.#engine.abort(key);
    });
  }

  /** Takes the KV of a decode leg away from the engine that prefilled it; false when it is not there. */
  #hasKv({ kv_transfer_params: params }: Body): boolean {
    if (params?.['do_remote_prefill'] !== true) return true;
    const peer = channels.get(`${String(params['remote_host'])}:${String(params['remote_port'])}`);
    const id = String(params['remote_request_id']);
    clearTimeout(peer?.staged.get(id));
    return peer?.staged.delete(id) === true && peer.engineId === params['remote_engine_id'];
  }

  async #onStep({ deltas }: EngineStep): Promise<void> {
    for (const { key, tokens } of deltas) this.#events.grow(key, tokens);
    // As in vLLM, events leave with the step; over another connection than its tokens.
    await this.#events.publish();
    for (const delta of deltas) {
      const call = this.#calls.get(delta.key);
      if (delta.finish !== 'none') this.#events.end(delta.key);
      if (call === undefined) continue;
      if (delta.finish !== 'none') this.#calls.delete(delta.key);
      this.#write(call, delta, delta.finish === 'none' ? null : delta.finish);
      if (call.tokens.length < 2 || call.misbehaviour === undefined) continue;
      this.#calls.delete(delta.key);
      this.#engine.abort(delta.key);
      if (call.misbehaviour.kind === 'die') call.response.destroy();
    }
  }

  #write(call: Call, delta: EngineDelta, finish: string | null): void {
    const { response, body } = call;
    call.cachedTokens = delta.cachedTokens ?? call.cachedTokens;
    call.tokens.push(...delta.tokens);
    const choice = { index: 0, text: 'x', finish_reason: finish, stop_reason: null };
    const usage = {
      prompt_tokens: body.token_ids?.length ?? body.prompt?.length,
      completion_tokens: call.tokens.length,
      prompt_tokens_details: { cached_tokens: call.cachedTokens },
    };
    if (body.stream !== true) {
      if (finish === null) return;
      const kv = finish === 'abort' ? null : this.#stage(body, delta.key);
      const choices = [{ ...choice, token_ids: call.tokens }];
      response.end(JSON.stringify({ request_id: 'r', usage, kv_transfer_params: kv, choices }));
      return;
    }
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
    const choices = [{ ...choice, token_ids: [...delta.tokens] }];
    response.write(event({ request_id: 'r', usage: null, output_mode: 'tokens', choices }));
    if (finish === null) return;
    response.write(event({ request_id: 'r', usage, choices: [] }));
    response.end('data: [DONE]\n\n');
  }

  #stage({ kv_transfer_params: params, token_ids, prompt }: Body, key: number): unknown {
    if (params?.['do_remote_decode'] !== true || this.#options.hasConnector !== true) return null;
    const id = `generate-tokens-${key}`;
    const expire = (): void => {
      if (this.staged.delete(id)) this.expired++;
    };
    this.staged.set(id, setTimeout(expire, this.#options.leaseMs ?? 30_000).unref());
    const blocks = Math.ceil((token_ids ?? prompt ?? []).length / this.blockSize);
    return {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [Array.from({ length: blocks }, (_, i) => i + 1)],
      remote_engine_id: this.engineId,
      remote_request_id: id,
      remote_host: '127.0.0.1',
      remote_port: this.channel,
      tp_size: 1,
      remote_blocks_expiry_time: null,
      transfer_mode: 'pull',
    };
  }
}

function toRequest(
  key: number,
  tokens: number[],
  body: Body,
  params: z.infer<typeof paramsSchema>,
): EngineRequest {
  return {
    key,
    tokens: Uint32Array.from(tokens),
    maxTokens: params.max_tokens,
    minTokens: params.min_tokens,
    ignoreEos: params.ignore_eos,
    stopTokenIds: params.stop_token_ids,
    sampling: params.seed === undefined ? {} : { seed: params.seed },
    ...(body.cache_salt === undefined ? {} : { cacheSalt: body.cache_salt }),
    ...(body.model === undefined || body.model === 'tiny' ? {} : { lora: body.model }),
  };
}

function event(data: unknown): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** As vLLM does: an error status, or an event in a stream that has begun. */
function refuse(response: ServerResponse, code: number, message: string, isStream = false): void {
  const error = { error: { message, type: 'Error', param: null, code } };
  response.writeHead(isStream ? 200 : code, { 'content-type': 'application/json' });
  response.end(isStream ? `${event(error)}data: [DONE]\n\n` : JSON.stringify(error));
}

function sendBytes(
  response: ServerResponse,
  { status = 200, writes }: Extract<Misbehaviour, { kind: 'bytes' }>,
): void {
  response.writeHead(status, { 'content-type': 'text/event-stream' });
  let at = 0;
  const send = (): void => {
    const bytes = writes[at++];
    if (bytes === undefined) response.end();
    else response.write(bytes, () => setImmediate(send));
  };
  send();
}
