import { setTimeout as sleep } from 'node:timers/promises';
import { type BusMessage, MemoryNetwork } from '@busbar/bus';
import type { Usage } from '@busbar/openai';
import {
  bucketNames,
  createSubjects,
  decodeHeldDecisions,
  decodeLifeBatch,
  decodeRouteRequest,
  encodeInstance,
  encodeModelCard,
  encodeRouteReply,
  encodeToken,
  type HeldDecisions,
  type Instance,
  instanceKey,
  type LifeEvent,
  type ModelCard,
  type RouteReply,
  type RouteRequest,
  type WorkerInfo,
} from '@busbar/protocol';
import { createTestContext } from '@busbar/service/testing';
import { createFrontend, type Frontend, frontendConfigSchema } from './index.ts';
import type { Place } from './placement/bookings.ts';
import {
  byteTokenizer,
  EOS,
  type Script,
  ScriptedWorker,
  sayOk,
} from './scripted-worker.testing.ts';

export {
  byteTokenizer,
  EOS,
  type Script,
  ScriptedWorker,
  transferOf,
} from './scripted-worker.testing.ts';

/** A decode worker whose engine the test plays. */
export const SCRIPTED_INFO: Omit<WorkerInfo, 'model'> = {
  engine: 'script',
  engineVersion: '1',
  blockSize: 4,
  kvBlocks: 10,
  role: 'decode',
  dpRanks: 1,
  contextTokens: 100,
  maxRunning: 8,
  kvEvents: true,
  prefillTokensPerMs: 1,
  decodeStepMs: 1,
};

const SUBJECTS = createSubjects('test');
const BUCKETS = bucketNames('test');
/** A stack in one process: the real frontend, a scripted router and scripted workers on an in-memory bus. */
export class ScriptedStack {
  readonly network = new MemoryNetwork();
  readonly workers: ScriptedWorker[] = [];
  readonly prefillers: ScriptedWorker[] = [];
  readonly routed: { request: RouteRequest; hashes: Uint32Array }[] = [];
  readonly life: LifeEvent[] = [];
  /** What the frontend said that it holds. */
  readonly held: HeldDecisions[] = [];
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
    await stack.open(options);
    return stack;
  }

  async open(options: { script?: Script; workers?: number; env?: object } = {}): Promise<void> {
    await this.putModel('m');
    await this.putInstance('router', 'router-1');
    this.#startRouter();
    for (let i = 1; i <= (options.workers ?? 1); i++) {
      await this.addWorker(`decode-${i}`, 'm', options.script);
    }
    const config = frontendConfigSchema.parse({ httpPort: 0, ...options.env });
    this.#frontend = await createFrontend(this.context, config, async () => byteTokenizer);
    await sleep(20);
  }

  get frontend(): Frontend {
    if (this.#frontend === undefined) throw new Error('not started');
    return this.#frontend;
  }

  get url(): string {
    return this.frontend.url;
  }

  async addWorker(
    id: string,
    model = 'm',
    script: Script = sayOk,
    change: Partial<WorkerInfo> = {},
  ): Promise<ScriptedWorker> {
    const worker = new ScriptedWorker(id, this.network.connect(), script);
    if (change.role !== 'prefill') this.workers.push(worker);
    else this.prefillers.push(worker);
    await this.putInstance(change.role ?? 'decode', id, model, change);
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

  async putInstance(
    role: 'router' | 'decode' | 'prefill',
    id: string,
    model?: string,
    change: Partial<WorkerInfo> = {},
    state: Instance['state'] = 'ready',
  ): Promise<void> {
    const bucket = await this.controlBus.bucket(BUCKETS.instances);
    const worker = { ...SCRIPTED_INFO, ...change };
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
        state,
        ...(model === undefined ? {} : { worker: { ...worker, model } }),
      }),
    );
  }

  async dropInstance(role: 'router' | 'decode' | 'prefill', id: string): Promise<void> {
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

  /** Asks until the answer has this status. */
  chatUntil(status: number, fields: object = {}): Promise<void> {
    return until(async () => (await this.chat(fields)).status === status);
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
    for (const worker of [...this.workers, ...this.prefillers]) await worker.kill();
    await this.controlBus.close();
  }

  #startRouter(): void {
    const { controlBus: bus } = this;
    bus.subscribe(SUBJECTS.lifeAll, ({ data }) => {
      this.life.push(...decodeLifeBatch(data).events);
    });
    bus.subscribe(SUBJECTS.heldAll, ({ data }) => {
      this.held.push(decodeHeldDecisions(data));
    });
    const onRoute = (message: BusMessage): void => {
      const routed = decodeRouteRequest(message.data);
      this.routed.push(routed);
      void Promise.resolve(this.route?.(routed.request) ?? this.#pick(routed.request)).then(
        (reply) => message.respond(encodeRouteReply(reply)),
      );
    };
    bus.subscribe(SUBJECTS.routeAll, onRoute);
    bus.subscribe(SUBJECTS.routeTo('router-1'), onRoute);
  }

  #pick(request: RouteRequest): RouteReply {
    const worker = this.workers.find(({ id }) => request.excluded?.includes(id) !== true);
    if (worker === undefined) return { kind: 'reject', code: 'ROUTER_NO_WORKERS', message: 'none' };
    return this.place(worker.id);
  }

  place(workerId: string): Place {
    const decisionId = `d${++this.#decisions}`;
    return {
      kind: 'place',
      decisionId,
      routerId: 'router-1',
      workerId,
      expectedCachedTokens: 0,
    };
  }

  /** A decision of two bookings. */
  split(
    workerId: string,
    prefillWorkerId: string,
    onFailure: 'prefill-locally' | 'fail' = 'prefill-locally',
  ): Place {
    const place = this.place(workerId);
    const { decisionId, expectedCachedTokens } = this.place(prefillWorkerId);
    const prefill = { decisionId, workerId: prefillWorkerId, expectedCachedTokens, onFailure };
    return { ...place, prefill };
  }

  /** Ends of each booking that was decided, by decision id. */
  ends(): Map<string, number> {
    const ends = new Map<string, number>();
    for (let i = 1; i <= this.#decisions; i++) ends.set(`d${i}`, 0);
    for (const event of this.life) {
      if (event.kind === 'ended') ends.set(event.decisionId, (ends.get(event.decisionId) ?? 0) + 1);
    }
    return ends;
  }

  metrics(): Promise<string> {
    return this.context.registry.metrics();
  }
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
  error: { code: string; param: string | null; message: string };
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
export async function until(
  condition: () => boolean | Promise<boolean>,
  limitMs = 5_000,
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end)
      throw new Error(`not within ${limitMs} ms: ${condition.toString()}`);
    await sleep(5);
  }
}

/** Runs `run` with a stack that is stopped afterwards, however it ends. */
export async function withStack(
  options: Parameters<typeof ScriptedStack.start>[0],
  run: (stack: ScriptedStack) => Promise<void>,
): Promise<void> {
  const stack = await ScriptedStack.start(options);
  try {
    await run(stack);
  } finally {
    await stack.stop();
  }
}
