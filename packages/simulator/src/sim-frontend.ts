import { BlockHasher, hashSeed } from '@busbar/blocks';
import type { MockDelta } from '@busbar/mocker';
import { type LifeEvent, limit, type Outcome, type RouteReply } from '@busbar/protocol';
import type { EventHeap } from './event-heap.ts';
import type { LifeMessage, SimRouter } from './sim-router.ts';
import type { BlockNames, SimWorker } from './sim-worker.ts';
import type { Timing } from './timing.ts';
import type { SimRequest } from './workload.ts';

/** What became of one request. Times are virtual milliseconds. */
export interface RequestRecord {
  promptTokens: number;
  isRepeat: boolean;
  arrivedMs: number;
  firstTokenMs: number | undefined;
  endedMs: number | undefined;
  outcome: Outcome | undefined;
  cachedTokens: number;
  expectedCachedTokens: number;
  outputTokens: number;
  workerId: string | undefined;
  placements: number;
  /** Ends that were seen; anything but one is a fault. */
  ends: number;
}

interface Placement {
  record: RequestRecord;
  request: SimRequest;
  outputTokens: number[];
  names: BlockNames;
  excluded: string[];
  decisionId: string;
}

export interface FrontendPorts {
  heap: EventHeap;
  timing: Timing;
  model: string;
  blockSize: number;
  /** Routers in the order in which requests are dealt out to them. */
  routers: readonly SimRouter[];
  worker(id: string): SimWorker | undefined;
  ended(record: RequestRecord, request: SimRequest, outputTokens: readonly number[]): void;
}

const NO_HASHES = new Uint32Array(0);
const HASH_SEED = hashSeed();

/** A frontend: asks a router, sends the work, follows the tokens, and tells every router how each booking went on. */
export class SimFrontend {
  readonly id = 'frontend-sim';
  readonly #ports: FrontendPorts;
  readonly #hasher: BlockHasher;
  readonly #placements = new Map<number, Placement>();
  #nextKey = 1;

  constructor(ports: FrontendPorts) {
    this.#ports = ports;
    this.#hasher = new BlockHasher(ports.blockSize, HASH_SEED);
  }

  /** A client sends a request now. */
  accept(request: SimRequest): RequestRecord {
    const record: RequestRecord = {
      promptTokens: request.tokens.length,
      isRepeat: request.isRepeat,
      arrivedMs: this.#ports.heap.nowMs,
      firstTokenMs: undefined,
      endedMs: undefined,
      outcome: undefined,
      cachedTokens: 0,
      expectedCachedTokens: 0,
      outputTokens: 0,
      workerId: undefined,
      placements: 0,
      ends: 0,
    };
    const names = { hashes: this.#hasher.hash(request.tokens), hashSeed: HASH_SEED };
    const rest = { outputTokens: [], excluded: [], decisionId: '' };
    const placement: Placement = { record, request, names, ...rest };
    this.#ports.heap.after(this.#ports.timing.frontendMs, () => this.#ask(placement));
    return record;
  }

  /** A router's answer, one hop later. */
  onReply(key: number, reply: RouteReply): void {
    const placement = this.#placements.get(key);
    if (placement === undefined) return;
    const { record } = placement;
    if (reply.kind === 'reject') {
      this.#end(key, placement, 'rejected');
      return;
    }
    record.placements++;
    record.workerId = reply.workerId;
    record.expectedCachedTokens = reply.expectedCachedTokens;
    placement.decisionId = reply.decisionId;
    const { decisionId, routerId, workerId, expectedCachedTokens } = reply;
    const event: LifeEvent = {
      kind: 'booked',
      decisionId,
      routerId,
      workerId,
      promptTokens: record.promptTokens,
      maxTokens: placement.request.maxTokens,
      expectedCachedTokens,
      blocks: placement.names.hashes.length >> 1,
    };
    this.#tell([{ event, hashes: placement.names.hashes }]);
    this.#ports.heap.after(this.#ports.timing.hopMs, () => {
      if (this.#placements.get(key) !== placement) return;
      const worker = this.#ports.worker(workerId);
      if (worker?.isAlive) worker.submit(key, placement.request, placement.names);
      else this.#replace(key, placement);
    });
  }

  /** The tokens of one engine step, one hop later. */
  onDeltas(worker: SimWorker, deltas: readonly MockDelta[]): void {
    const told: LifeMessage[] = [];
    for (const delta of deltas) {
      const placement = this.#placements.get(delta.key);
      if (placement === undefined) continue;
      const { record, decisionId } = placement;
      for (const token of delta.tokens) placement.outputTokens.push(token);
      record.outputTokens += delta.tokens.length;
      if (record.firstTokenMs === undefined && delta.tokens.length > 0) {
        const cachedTokens = delta.cachedTokens ?? 0;
        record.firstTokenMs = this.#ports.heap.nowMs;
        record.cachedTokens = cachedTokens;
        const ttftMs = record.firstTokenMs - record.arrivedMs;
        const workerId = worker.id;
        const event: LifeEvent = { kind: 'firstToken', decisionId, workerId, cachedTokens, ttftMs };
        told.push({ event, hashes: NO_HASHES });
      }
      if (delta.finish !== 'none') {
        const hasFailed = delta.finish === 'error' || delta.finish === 'cancelled';
        told.push(this.#end(delta.key, placement, hasFailed ? 'failed' : 'completed'));
      }
    }
    if (told.length > 0) this.#tell(told);
  }

  /** A worker is not heard of any more: what has no token yet goes elsewhere, the rest fails. */
  onWorkerSilent(workerId: string): void {
    for (const [key, placement] of this.#placements) {
      if (placement.record.workerId !== workerId || placement.decisionId === '') continue;
      if (placement.record.firstTokenMs === undefined) this.#replace(key, placement);
      else this.#tell([this.#end(key, placement, 'failed')]);
    }
  }

  #ask(placement: Placement): void {
    const key = this.#nextKey++;
    this.#placements.set(key, placement);
    const { heap, timing, model, routers } = this.#ports;
    const { tokens, maxTokens } = placement.request;
    const request = {
      model,
      frontendId: this.id,
      promptTokens: tokens.length,
      maxTokens,
      deadlineMs: limit('routeTimeoutMs'),
      ...(placement.excluded.length > 0 ? { excluded: placement.excluded } : {}),
    };
    const router = routers[key % routers.length]!;
    heap.after(timing.hopMs, () => router.request(key, request, placement.names.hashes));
  }

  #replace(key: number, placement: Placement): void {
    const { record } = placement;
    if (record.placements >= limit('placementAttempts')) {
      this.#tell([this.#end(key, placement, 'failed')]);
      return;
    }
    this.#placements.delete(key);
    this.#tell([this.#endedEvent(placement, 'failed')]);
    if (record.workerId !== undefined) placement.excluded.push(record.workerId);
    placement.decisionId = '';
    this.#ask(placement);
  }

  #end(key: number, placement: Placement, outcome: Outcome): LifeMessage {
    const { record } = placement;
    this.#placements.delete(key);
    record.ends++;
    record.outcome = outcome;
    record.endedMs = this.#ports.heap.nowMs;
    this.#ports.ended(record, placement.request, placement.outputTokens);
    return this.#endedEvent(placement, outcome);
  }

  #endedEvent({ record, decisionId }: Placement, outcome: Outcome): LifeMessage {
    const workerId = record.workerId ?? '';
    const { outputTokens } = record;
    const event: LifeEvent = { kind: 'ended', decisionId, workerId, outcome, outputTokens };
    return { event, hashes: NO_HASHES };
  }

  #tell(messages: LifeMessage[]): void {
    const { heap, timing, routers } = this.#ports;
    for (const router of routers) {
      heap.after(timing.hopMs, () => router.life(this.id, messages));
    }
  }
}
