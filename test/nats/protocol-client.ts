import { hashBlocks, hashSeed } from '@busbar/blocks';
import { type Bus, connectNats, type Lease } from '@busbar/bus';
import {
  bucketNames,
  createSubjects,
  decodeRouteReply,
  decodeTokenBatch,
  decodeWorkAck,
  encodeCancel,
  encodeInstance,
  encodeLifeBatch,
  encodeRouteRequest,
  encodeWork,
  type LifeEvent,
  PROTOCOL_VERSION,
  type RouteReply,
  type StreamDelta,
  type Subjects,
  type TransferParams,
  type WorkAck,
  type WorkHeader,
} from '@busbar/protocol';

const NONE = new Uint32Array(0);
const TIMEOUT_MS = 5_000;

/** What one stream got. */
export interface Answer {
  streamId: number;
  workerId: string;
  tokens: number[];
  cachedTokens: number | undefined;
  finish: string;
  errorCode: string | undefined;
  /** With which a decode worker can fetch what a prefill worker kept. */
  transfer?: TransferParams;
  /** Set when a delta did not follow the one before. */
  isBroken: boolean;
}

export type Outcome =
  | { kind: 'answer'; answer: Answer; placement: Extract<RouteReply, { kind: 'place' }> }
  | { kind: 'rejected'; reply: RouteReply }
  | { kind: 'refused'; ack: WorkAck };

/** The bus side of a frontend, for tests that need no HTTP: places, sends work, reads tokens, reports what became of it. */
export class ProtocolClient {
  readonly bus: Bus;
  readonly subjects: Subjects;
  readonly id: string;
  readonly answers = new Map<number, Answer>();
  /** Batches whose sequence number did not follow. */
  lostBatches = 0;
  readonly #blockSize: number;
  readonly #sequences = new Map<string, number>();
  readonly #waiters = new Map<number, () => void>();
  readonly #lease: Lease;
  #nextStream = 1;

  private constructor(bus: Bus, subjects: Subjects, id: string, blockSize: number, lease: Lease) {
    this.bus = bus;
    this.subjects = subjects;
    this.id = id;
    this.#blockSize = blockSize;
    this.#lease = lease;
    bus.subscribe(subjects.tokensTo(id), (message) => {
      const workerId = message.subject.slice(message.subject.lastIndexOf('.') + 1);
      const batch = decodeTokenBatch(message.data);
      const expected = (this.#sequences.get(workerId) ?? 0) + 1;
      if (batch.sequence !== expected && batch.sequence !== 1) this.lostBatches++;
      this.#sequences.set(workerId, batch.sequence);
      for (const delta of batch.deltas) this.#onDelta(delta);
    });
  }

  static async connect(
    url: string,
    options: { namespace?: string; id?: string; blockSize?: number } = {},
  ): Promise<ProtocolClient> {
    const { namespace = 'default', id = 'frontend-test' } = options;
    const { blockSize = 16 } = options;
    const bus = await connectNats({ url, name: id });
    const bucket = await bus.bucket(bucketNames(namespace).instances);
    const lease = await bucket.lease(
      `frontend.${id}`,
      encodeInstance({
        protocol: PROTOCOL_VERSION,
        role: 'frontend',
        id,
        epoch: 1,
        pid: process.pid,
        host: 'test',
        startedAt: new Date().toISOString(),
        state: 'ready',
      }),
      { ttlMs: 3_000, renewMs: 1_000 },
    );
    return new ProtocolClient(bus, createSubjects(namespace), id, blockSize, lease);
  }

  async place(model: string, tokens: Uint32Array, maxTokens = 16): Promise<RouteReply> {
    const hashes = hashBlocks(tokens, this.#blockSize, hashSeed());
    const request = {
      model,
      frontendId: this.id,
      promptTokens: tokens.length,
      maxTokens,
      deadlineMs: TIMEOUT_MS,
    };
    const message = await this.bus.request(
      this.subjects.route(model),
      encodeRouteRequest(request, hashes),
      { timeoutMs: TIMEOUT_MS },
    );
    const reply = decodeRouteReply(message.data);
    if (reply.kind === 'place') {
      const { decisionId, routerId, workerId, expectedCachedTokens } = reply;
      this.life(
        model,
        {
          kind: 'booked',
          decisionId,
          routerId,
          workerId,
          promptTokens: tokens.length,
          maxTokens,
          expectedCachedTokens,
          blocks: hashes.length / 2,
        },
        hashes,
      );
    }
    return reply;
  }

  /** Gives a request to a worker. `onFirst` is called with the first token. */
  async work(
    workerId: string,
    model: string,
    tokens: Uint32Array,
    more: Partial<WorkHeader> = {},
  ): Promise<{ ack: WorkAck; streamId: number; answer: Answer }> {
    const streamId = more.streamId ?? this.#nextStream++;
    const answer: Answer = {
      streamId,
      workerId,
      tokens: [],
      cachedTokens: undefined,
      finish: 'none',
      errorCode: undefined,
      isBroken: false,
    };
    if (!this.answers.has(streamId)) this.answers.set(streamId, answer);
    const header: WorkHeader = {
      streamId,
      frontendId: this.id,
      decisionId: 'none',
      model,
      promptTokens: tokens.length,
      maxTokens: 16,
      ignoreEos: true,
      sampling: {},
      ...more,
    };
    const message = await this.bus.request(
      this.subjects.work(workerId),
      encodeWork(header, tokens),
      {
        timeoutMs: TIMEOUT_MS,
      },
    );
    return { ack: decodeWorkAck(message.data), streamId, answer };
  }

  cancel(workerId: string, streamIds: number[]): void {
    this.bus.publish(this.subjects.cancel(workerId), encodeCancel(this.id, streamIds));
  }

  life(model: string, event: LifeEvent, hashes: Uint32Array = NONE): void {
    const batch = { frontendId: this.id, events: [event], hashes: [hashes] };
    this.bus.publish(this.subjects.life(model), encodeLifeBatch(batch));
  }

  /** Resolves with the finish reason. */
  async finished(answer: Answer, timeoutMs = 10_000): Promise<string> {
    if (answer.finish !== 'none') return answer.finish;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`stream ${answer.streamId} did not end in ${timeoutMs} ms`)),
        timeoutMs,
      );
      this.#waiters.set(answer.streamId, () => {
        clearTimeout(timer);
        resolve();
      });
    });
    return answer.finish;
  }

  /** The whole way of one request. */
  async chat(model: string, tokens: Uint32Array, maxTokens = 16): Promise<Outcome> {
    const reply = await this.place(model, tokens, maxTokens);
    if (reply.kind !== 'place') return { kind: 'rejected', reply };
    const { decisionId, workerId } = reply;
    const { ack, answer } = await this.work(workerId, model, tokens, { decisionId, maxTokens });
    const outcome = ack.kind === 'accepted' ? undefined : ({ kind: 'refused', ack } as const);
    if (outcome === undefined) await this.finished(answer);
    this.life(model, {
      kind: 'firstToken',
      decisionId,
      workerId,
      cachedTokens: answer.cachedTokens ?? 0,
      ttftMs: 1,
    });
    this.life(model, {
      kind: 'ended',
      decisionId,
      workerId,
      outcome: outcome === undefined ? 'completed' : 'failed',
      outputTokens: answer.tokens.length,
    });
    return outcome ?? { kind: 'answer', answer, placement: reply };
  }

  async close(): Promise<void> {
    await this.#lease.release();
    await this.bus.close();
  }

  #onDelta(delta: StreamDelta): void {
    const answer = this.answers.get(delta.streamId);
    if (answer === undefined) return;
    if (delta.position !== answer.tokens.length) answer.isBroken = true;
    answer.tokens.push(...delta.tokens);
    answer.cachedTokens ??= delta.cachedTokens;
    if (delta.finish === 'none') return;
    answer.finish = delta.finish;
    answer.errorCode = delta.error?.code;
    if (delta.transfer !== undefined) answer.transfer = delta.transfer;
    this.#waiters.get(delta.streamId)?.();
  }
}
