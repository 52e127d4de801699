import type { Clock } from '@busbar/base';
import { hashBlocks, hashSeed } from '@busbar/blocks';
import { type Bucket, type Bus, MemoryNetwork } from '@busbar/bus';
import {
  decodeRouteReply,
  encodeInstance,
  encodeKvBatch,
  encodeKvSyncReply,
  encodeLifeBatch,
  encodeRouteRequest,
  encodeWorkerLoad,
  type Instance,
  instanceKey,
  type KvChange,
  type LifeEvent,
  PROTOCOL_VERSION,
  type RouteReply,
  type WorkerInfo,
  type WorkerLoad,
} from '@busbar/protocol';
import { loadConfig, type Service } from '@busbar/service';
import { createTestContext, type TestContext } from '@busbar/service/testing';
import { routerConfigSchema } from './config.ts';
import { createRouter } from './router.ts';

/** What the tests of this service share. */

export const INFO: WorkerInfo = {
  model: 'm',
  engine: 'fake',
  engineVersion: '1',
  blockSize: 16,
  kvBlocks: 1000,
  role: 'decode',
  dpRanks: 1,
  contextTokens: 4096,
  maxRunning: 64,
  kvEvents: true,
  prefillTokensPerMs: 20,
  decodeStepMs: 10,
};

export function instanceOf(
  role: 'decode' | 'prefill' | 'frontend',
  id: string,
  epoch: number,
  worker: Partial<WorkerInfo> = {},
): Instance {
  return {
    protocol: PROTOCOL_VERSION,
    role,
    id,
    epoch,
    pid: 1,
    host: 'h',
    startedAt: '',
    state: 'ready',
    ...(role === 'frontend' ? {} : { worker: { ...INFO, role, ...worker } }),
  };
}

/** A worker that says what a test wants it to say. */
class FakeWorker {
  readonly id: string;
  epoch = 1;
  sequence = 0;
  stored = 0;
  snapshot: Uint32Array = new Uint32Array(0);
  /** Asked for its block set so often. */
  syncs = 0;
  readonly #bus: Bus;
  readonly #context: TestContext;
  readonly #bucket: Bucket;
  #timer: NodeJS.Timeout | undefined;

  constructor(bus: Bus, context: TestContext, bucket: Bucket, id: string) {
    this.#bus = bus;
    this.#context = context;
    this.#bucket = bucket;
    this.id = id;
    bus.subscribe(context.subjects.kvSync(id), (message) => {
      this.syncs++;
      const reply = {
        snapshotId: 1,
        part: 0,
        parts: 1,
        epoch: this.epoch,
        sequence: this.sequence,
        dpRank: 0,
        tier: 'device',
      } as const;
      message.respond(encodeKvSyncReply(reply, this.snapshot));
    });
  }

  async join(info: Partial<WorkerInfo> = {}): Promise<void> {
    const role = info.role ?? 'decode';
    const instance = instanceOf(role, this.id, this.epoch, info);
    await this.#bucket.put(instanceKey(role, this.id), encodeInstance(instance));
    this.#timer ??= setInterval(() => this.beat(), 100);
    this.beat();
  }

  async leave(): Promise<void> {
    clearInterval(this.#timer);
    await this.#bucket.delete(instanceKey('decode', this.id));
  }

  beat(more: Partial<WorkerLoad> = {}): void {
    const load: WorkerLoad = {
      epoch: this.epoch,
      state: 'ready',
      running: 0,
      waiting: 0,
      waitingPrefillTokens: 0,
      freeBlocks: 500,
      activeBlocks: 0,
      kvBlocks: 1000,
      decodeStepMs: 10,
      prefillTokensPerMs: 20,
      kvSequence: this.sequence,
      storedBlocksTotal: this.stored,
      ...more,
    };
    this.#bus.publish(this.#context.subjects.load(this.id), encodeWorkerLoad(load));
  }

  kv(...changes: KvChange[]): void {
    this.sequence++;
    const { epoch, sequence } = this;
    const batch = { epoch, sequence, dpRank: 0, tier: 'device', changes } as const;
    this.#bus.publish(this.#context.subjects.kv(this.id), encodeKvBatch(batch));
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

export interface Bench {
  network: MemoryNetwork;
  bus: Bus;
  context: TestContext;
  bucket: Bucket;
  worker: (id: string) => FakeWorker;
  router: (
    env?: Record<string, string>,
    id?: string,
    clock?: Clock,
  ) => Promise<{ service: Service; context: TestContext }>;
  place: (tokens: Uint32Array, frontendId?: string, ask?: number) => Promise<RouteReply>;
  life: (event: LifeEvent, hashes?: Uint32Array) => void;
}

export async function withBench(use: (bench: Bench) => Promise<void>): Promise<void> {
  const network = new MemoryNetwork();
  const bus = network.connect();
  const context = createTestContext('frontend', bus, 'f1');
  const bucket = await bus.bucket(context.buckets.instances);
  const running: Service[] = [];
  const workers: FakeWorker[] = [];
  try {
    await use({
      network,
      bus,
      context,
      bucket,
      worker: (id) => {
        const worker = new FakeWorker(bus, context, bucket, id);
        workers.push(worker);
        return worker;
      },
      router: async (env = {}, id = 'r1', clock) => {
        const plain = createTestContext('router', network.connect(), id);
        const own = clock === undefined ? plain : { ...plain, clock };
        const service = await createRouter(own, loadConfig(routerConfigSchema, env).config);
        running.push(service);
        return { service, context: own };
      },
      place: async (tokens, frontendId = 'f1', ask = 1) => {
        const request = {
          model: 'm',
          frontendId,
          ask,
          promptTokens: tokens.length,
          maxTokens: 8,
          deadlineMs: 2_000,
        };
        const data = encodeRouteRequest(request, hashBlocks(tokens, 16, hashSeed()));
        const answer = await bus.request(context.subjects.route('m'), data, { timeoutMs: 3_000 });
        return decodeRouteReply(answer.data);
      },
      life: (event, hashes = new Uint32Array(0)) =>
        bus.publish(
          context.subjects.life('m'),
          encodeLifeBatch({ frontendId: 'f1', events: [event], hashes: [hashes] }),
        ),
    });
  } finally {
    for (const worker of workers) worker.stop();
    for (const service of running) await service.stop();
    await bus.close();
  }
}

export function prompt(length: number, salt = 0): Uint32Array {
  return Uint32Array.from({ length }, (_, at) => 10 + ((at * 7 + salt * 131) % 997));
}
