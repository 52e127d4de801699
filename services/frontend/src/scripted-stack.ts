import { setTimeout as sleep } from 'node:timers/promises';
import { type Bus, MemoryNetwork } from '@busbar/bus';
import type { Usage } from '@busbar/openai';
import {
  bucketNames,
  createSubjects,
  decodeCancel,
  decodeLifeBatch,
  decodeRouteRequest,
  decodeWork,
  encodeInstance,
  encodeModelCard,
  encodeRouteReply,
  encodeToken,
  encodeTokenBatch,
  encodeWorkAck,
  type FinishReason,
  instanceKey,
  type LifeEvent,
  type ModelCard,
  type RouteReply,
  type RouteRequest,
  type StreamDelta,
  type WorkAck,
  type WorkHeader,
} from '@busbar/protocol';
import { createTestContext } from '@busbar/service/testing';
import type { Tokenizer } from '@busbar/tokenizer';
import { createFrontend, type Frontend, frontendConfigSchema } from './index.ts';

const SUBJECTS = createSubjects('test');
const BUCKETS = bucketNames('test');
export const EOS = 256;

/** Every UTF-8 byte is a token. */
export const byteTokenizer: Tokenizer = {
  vocabularySize: 257,
  eosTokenIds: [EOS],
  encoderKind: 'fast',
  notes: [],
  encode: (text) => Uint32Array.from(new TextEncoder().encode(text)),
  renderChat: (messages, options) =>
    messages
      .map(
        (message) =>
          `<${message.role}>${typeof message.content === 'string' ? message.content : ''}`,
      )
      .join('') +
    (options?.tools === undefined ? '' : JSON.stringify(options.tools)) +
    (options?.addGenerationPrompt === false ? '' : '<assistant>'),
  createDetokenizer() {
    const decoder = new TextDecoder();
    return {
      push: (tokens) =>
        decoder.decode(Uint8Array.from(tokens.filter((t) => t < EOS)), { stream: true }),
      flush: () => decoder.decode(),
    };
  },
  decode: (tokens) => new TextDecoder().decode(Uint8Array.from(tokens)),
  close: () => Promise.resolve(),
};

/** What a scripted worker does with a request; the default says "ok". */
export type Script = (worker: ScriptedWorker, header: WorkHeader) => void | Promise<void>;

/** A worker made of bus handlers. Tokens go out when the script says so. */
export class ScriptedWorker {
  readonly id: string;
  readonly bus: Bus;
  readonly works: { header: WorkHeader; tokens: Uint32Array }[] = [];
  readonly cancelled: number[] = [];
  ack: (header: WorkHeader) => WorkAck | undefined = () => ({ kind: 'accepted' });
  script: Script;
  #sequence = 0;
  readonly #positions = new Map<number, number>();
  readonly #frontends = new Map<number, string>();
  readonly #parts: Uint32Array[] = [];
  #isHung = false;

  constructor(id: string, bus: Bus, script: Script) {
    this.id = id;
    this.bus = bus;
    this.script = script;
    bus.subscribe(SUBJECTS.cancel(id), (message) => {
      if (this.#isHung) return;
      this.cancelled.push(...decodeCancel(message.data).streamIds);
      message.respond(new Uint8Array(0));
    });
    bus.subscribe(SUBJECTS.work(id), (message) => {
      const { header, tokens } = decodeWork(message.data);
      const ack = this.ack(header);
      if (ack !== undefined) message.respond(encodeWorkAck(ack));
      if (ack?.kind !== 'accepted') return;
      this.#parts.push(tokens);
      if ((header.part ?? 0) < (header.parts ?? 1) - 1) return;
      const whole = Uint32Array.from(this.#parts.splice(0).flatMap((part) => [...part]));
      this.works.push({ header, tokens: whole });
      this.#frontends.set(header.streamId, header.frontendId);
      void this.script(this, header);
    });
  }

  /** One engine step for one stream. */
  emit(
    streamId: number,
    text: string | number[],
    finish: FinishReason = 'none',
    more: Partial<StreamDelta> = {},
  ): void {
    const tokens = typeof text === 'string' ? byteTokenizer.encode(text) : Uint32Array.from(text);
    if (tokens instanceof Promise) throw new Error('the byte tokenizer is synchronous');
    const position = this.#positions.get(streamId) ?? 0;
    this.#positions.set(streamId, position + tokens.length);
    const delta: StreamDelta = { streamId, position, tokens, finish, ...more };
    if (position === 0) delta.cachedTokens ??= 3;
    this.send(this.#frontends.get(streamId) ?? 'frontend-test', [delta]);
  }

  send(frontendId: string, deltas: StreamDelta[]): void {
    const data = encodeTokenBatch({ sequence: ++this.#sequence, deltas });
    this.bus.publish(SUBJECTS.tokens(frontendId, this.id), data);
  }

  /** The next batch is lost on its way. */
  loseBatch(): void {
    this.#sequence++;
  }

  /** As SIGKILL: nothing is said, the connection is gone. */
  async kill(): Promise<void> {
    await this.bus.close();
  }

  /** Connected but silent, as after SIGSTOP. */
  hang(): void {
    this.#isHung = true;
  }
}

/** A stack in one process: the real frontend, a scripted router and scripted workers on an in-memory bus. */
export class ScriptedStack {
  readonly network = new MemoryNetwork();
  readonly workers: ScriptedWorker[] = [];
  readonly routed: { request: RouteRequest; hashes: Uint32Array }[] = [];
  readonly life: LifeEvent[] = [];
  readonly controlBus = this.network.connect();
  readonly context = createTestContext('frontend', this.network.connect());
  /** Undefined: the first living worker that is not excluded. */
  route: ((request: RouteRequest) => RouteReply | undefined | Promise<RouteReply>) | undefined;
  #frontend: Frontend | undefined;
  #decisions = 0;

  static async start(
    options: { script?: Script; workers?: number; env?: object } = {},
  ): Promise<ScriptedStack> {
    const stack = new ScriptedStack();
    await stack.putModel('m');
    await stack.putInstance('router', 'router-1');
    stack.#startRouter();
    for (let i = 1; i <= (options.workers ?? 1); i++) {
      await stack.addWorker(`decode-${i}`, 'm', options.script);
    }
    const config = frontendConfigSchema.parse({ httpPort: 0, ...options.env });
    const { context } = stack;
    stack.#frontend = await createFrontend(context, config, async () => byteTokenizer);
    await sleep(20);
    return stack;
  }

  get frontend(): Frontend {
    if (this.#frontend === undefined) throw new Error('not started');
    return this.#frontend;
  }

  get url(): string {
    return this.frontend.url;
  }

  async addWorker(id: string, model = 'm', script: Script = sayOk): Promise<ScriptedWorker> {
    const worker = new ScriptedWorker(id, this.network.connect(), script);
    this.workers.push(worker);
    await this.putInstance('decode', id, model);
    return worker;
  }

  async putModel(name: string, change: Partial<ModelCard> = {}): Promise<void> {
    const bucket = await this.controlBus.bucket(BUCKETS.models);
    const card: ModelCard = {
      protocol: 1,
      name,
      blockSize: 4,
      contextTokens: 2_000_000,
      eosTokenIds: [EOS],
      createdAt: '2026-01-01T00:00:00Z',
      ...change,
    };
    await bucket.put(encodeToken(name), encodeModelCard(card));
  }

  async putInstance(role: 'router' | 'decode', id: string, model?: string): Promise<void> {
    const bucket = await this.controlBus.bucket(BUCKETS.instances);
    const worker = {
      engine: 'script',
      engineVersion: '1',
      blockSize: 4,
      kvBlocks: 10,
      role: 'decode' as const,
      dpRanks: 1,
      contextTokens: 100,
      maxRunning: 8,
      kvEvents: true,
      prefillTokensPerMs: 1,
      decodeStepMs: 1,
    };
    await bucket.put(
      instanceKey(role, id),
      encodeInstance({
        protocol: 1,
        role,
        id,
        epoch: 1,
        pid: 1,
        host: 'h',
        startedAt: '2026-01-01T00:00:00Z',
        state: 'ready',
        ...(model === undefined ? {} : { worker: { ...worker, model } }),
      }),
    );
  }

  async dropInstance(role: 'router' | 'decode', id: string): Promise<void> {
    await (await this.controlBus.bucket(BUCKETS.instances)).delete(instanceKey(role, id));
  }

  post(body: unknown, options: { path?: string; signal?: AbortSignal; headers?: object } = {}) {
    return fetch(`${this.url}${options.path ?? '/v1/chat/completions'}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...options.headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    });
  }

  chat(fields: object = {}, options: { signal?: AbortSignal; headers?: object } = {}) {
    return this.post(
      { model: 'm', messages: [{ role: 'user', content: 'hi' }], ...fields },
      options,
    );
  }

  ended(outcome: string): number {
    return this.life.filter((event) => event.kind === 'ended' && event.outcome === outcome).length;
  }

  async stop(): Promise<void> {
    await this.#frontend?.stop();
    await this.context.bus.close();
    for (const worker of this.workers) await worker.kill();
    await this.controlBus.close();
  }

  #startRouter(): void {
    const { controlBus: bus } = this;
    bus.subscribe(SUBJECTS.lifeAll, ({ data }) => {
      this.life.push(...decodeLifeBatch(data).events);
    });
    bus.subscribe(SUBJECTS.routeAll, (message) => {
      const routed = decodeRouteRequest(message.data);
      this.routed.push(routed);
      void Promise.resolve(this.route?.(routed.request) ?? this.#pick(routed.request)).then(
        (reply) => message.respond(encodeRouteReply(reply)),
      );
    });
  }

  #pick(request: RouteRequest): RouteReply {
    const worker = this.workers.find(({ id }) => request.excluded?.includes(id) !== true);
    if (worker === undefined) return { kind: 'reject', code: 'ROUTER_NO_WORKERS', message: 'none' };
    return this.place(worker.id);
  }

  place(workerId: string): RouteReply {
    const decisionId = `d${++this.#decisions}`;
    return {
      kind: 'place',
      decisionId,
      routerId: 'router-1',
      workerId,
      expectedCachedTokens: 0,
    };
  }
}

function sayOk(worker: ScriptedWorker, { streamId }: WorkHeader): void {
  worker.emit(streamId, 'o');
  worker.emit(streamId, 'k');
  worker.emit(streamId, [EOS], 'stop');
}

/** One event of a stream, chat and completions in one type. */
export interface StreamEvent {
  id: string;
  created: number;
  choices: {
    index: number;
    delta: { role?: string; content?: string };
    finish_reason: string | null;
  }[];
  usage?: Usage;
  error: { code: string };
}

/** A whole answer, chat and completions in one type. */
export interface Answer {
  id: string;
  object: string;
  choices: {
    index: number;
    text?: string;
    message: { content: string };
    finish_reason: string;
  }[];
  usage: Usage;
  error: { code: string };
}

export async function answerOf(response: Response | Promise<Response>): Promise<Answer> {
  return JSON.parse(await (await response).text());
}

/** The parsed `data:` events of an SSE body, without [DONE]; throws when [DONE] is not the last. */
export function eventsOf(body: string): StreamEvent[] {
  const lines = body.split('\n\n').filter((part) => part.startsWith('data: '));
  if (lines.pop() !== 'data: [DONE]') throw new Error(`no [DONE] at the end of ${body}`);
  return lines.map((line) => JSON.parse(line.slice(6)));
}

/** Processor time of this process; on a shared machine the wall clock says little about work. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Waits until `condition` holds; fails after `limitMs`. */
export async function until(condition: () => boolean, limitMs = 2_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!condition()) {
    if (performance.now() > end)
      throw new Error(`not within ${limitMs} ms: ${condition.toString()}`);
    await sleep(5);
  }
}
