import { BlockHasher, hashSeed } from '@busbar/blocks';
import type { MockDelta } from '@busbar/mocker';
import {
  type LifeEvent,
  limit,
  type Outcome,
  type RouteReply,
  type RouteRequest,
} from '@busbar/protocol';
import type { EventHeap } from './event-heap.ts';
import { newRecord, type RequestRecord } from './request-record.ts';
import { type PrefillLegHost, type PrefillPlace, SimPrefillLeg } from './sim-prefill-leg.ts';
import type { LifeMessage } from './sim-router.ts';
import type { BlockNames, KvPart } from './sim-worker.ts';
import type { Timing } from './timing.ts';
import type { SimRequest } from './workload.ts';

interface Placement {
  record: RequestRecord;
  request: SimRequest;
  outputTokens: number[];
  names: BlockNames;
  excluded: string[];
  decisionId: string;
  /** The leg that computes the prompt elsewhere; undefined when one worker does it all. */
  leg: SimPrefillLeg | undefined;
  /** The leg of the last placement, whose KV waits for another decode worker. */
  kept: SimPrefillLeg | undefined;
  /** The KV of a split was lost on its way: the next placement is one worker for everything. */
  isWhole: boolean;
}

/** What a frontend needs of a router. */
export interface FrontendRouter {
  request(key: number, request: RouteRequest, hashes: Uint32Array): void;
  life(frontendId: string, messages: readonly LifeMessage[]): void;
}

/** What a frontend needs of a worker. */
export interface FrontendWorker {
  readonly isAlive: boolean;
  submit(key: number, request: SimRequest, names: BlockNames, part?: KvPart): boolean;
  abort(key: number): void;
}

export interface FrontendPorts {
  heap: EventHeap;
  timing: Timing;
  model: string;
  blockSize: number;
  /** Routers in the order in which requests are dealt out to them. */
  routers: readonly FrontendRouter[];
  worker(id: string): FrontendWorker | undefined;
  ended(record: RequestRecord, request: SimRequest, outputTokens: readonly number[]): void;
}

const NO_HASHES = new Uint32Array(0);
const HASH_SEED = hashSeed();

/**
 * A frontend: asks a router, sends the work, follows the tokens, and tells every router how each booking went on. Of a split request it
 * drives both legs, by the same steps as the live one; a test runs the two side by side.
 */
export class SimFrontend {
  readonly id = 'frontend-sim';
  readonly #ports: FrontendPorts;
  readonly #hasher: BlockHasher;
  readonly #placements = new Map<number, Placement>();
  /** Running prefill legs, by their own keys. */
  readonly #legs = new Map<number, SimPrefillLeg>();
  #nextKey = 1;

  constructor(ports: FrontendPorts) {
    this.#ports = ports;
    this.#hasher = new BlockHasher(ports.blockSize, HASH_SEED);
  }

  /** A client sends a request now. */
  accept(request: SimRequest): RequestRecord {
    const record = newRecord(request, this.#ports.heap.nowMs);
    const names = { hashes: this.#hasher.hash(request.tokens), hashSeed: HASH_SEED };
    const rest = { outputTokens: [], excluded: [], decisionId: '', isWhole: false };
    const legs = { leg: undefined, kept: undefined };
    const placement: Placement = { record, request, names, ...rest, ...legs };
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
    const { workerId, prefill, kvAt } = reply;
    record.placements++;
    record.workerId = workerId;
    record.predictedTtftMs = reply.predictedTtftMs;
    record.expectedCachedTokens = (prefill ?? reply).expectedCachedTokens;
    placement.decisionId = reply.decisionId;
    this.#tellBooked(placement, reply);
    this.#resume(placement, kvAt);
    if (prefill === undefined) this.#send(key, placement);
    else this.#beginLeg(key, placement, prefill);
  }

  /** The tokens of one engine step, one hop later. */
  onDeltas(worker: { readonly id: string }, deltas: readonly MockDelta[]): void {
    const told: LifeMessage[] = [];
    for (const delta of deltas) {
      const leg = this.#legs.get(delta.key);
      if (leg !== undefined) leg.accept(delta, this.#ports.heap.nowMs);
      const placement = this.#placements.get(delta.key);
      if (placement !== undefined) this.#onDelta(worker.id, delta, placement, told);
    }
    if (told.length > 0) this.#tell(told);
  }

  /** A worker is not heard of any more: what has no token yet goes elsewhere, the rest fails. */
  onWorkerSilent(workerId: string): void {
    for (const leg of this.#legs.values()) if (leg.workerId === workerId) leg.lose('failed');
    for (const [key, placement] of this.#placements) {
      if (placement.record.workerId !== workerId || placement.decisionId === '') continue;
      // Nothing was sent there yet.
      if (placement.leg?.isRunning === true) continue;
      if (placement.record.firstTokenMs === undefined) this.#replace(key, placement, 'failed');
      else this.#tell([this.#end(key, placement, 'failed')]);
    }
  }

  #onDelta(workerId: string, delta: MockDelta, placement: Placement, told: LifeMessage[]): void {
    const { record, decisionId, leg } = placement;
    if (delta.error?.code === 'WORKER_KV_LOST' && record.firstTokenMs === undefined) {
      this.#onKvLost(delta.key, placement);
      return;
    }
    for (const token of delta.tokens) placement.outputTokens.push(token);
    record.outputTokens += delta.tokens.length;
    if (record.firstTokenMs === undefined && delta.tokens.length > 0) {
      record.firstTokenMs = this.#ports.heap.nowMs;
      record.isFetched = leg !== undefined;
      record.cachedTokens = leg?.cachedTokens ?? delta.cachedTokens ?? 0;
      leg?.handOver();
      const ttftMs = record.firstTokenMs - record.arrivedMs;
      // What is fetched is no hit of the decode worker's cache.
      const cached = leg === undefined ? { cachedTokens: record.cachedTokens } : {};
      const event: LifeEvent = { kind: 'firstToken', decisionId, workerId, ...cached, ttftMs };
      told.push({ event, hashes: NO_HASHES });
    }
    if (delta.finish !== 'none') {
      const hasFailed = delta.finish === 'error' || delta.finish === 'cancelled';
      told.push(this.#end(delta.key, placement, hasFailed ? 'failed' : 'completed'));
    }
  }

  #ask(placement: Placement): void {
    const key = this.#nextKey++;
    this.#placements.set(key, placement);
    const { heap, timing, model, routers } = this.#ports;
    const { tokens, maxTokens } = placement.request;
    const request: RouteRequest = {
      model,
      frontendId: this.id,
      promptTokens: tokens.length,
      maxTokens,
      deadlineMs: limit('routeTimeoutMs'),
      ...(placement.excluded.length > 0 ? { excluded: placement.excluded } : {}),
      ...(placement.isWhole ? { isWhole: true } : {}),
      ...(placement.kept === undefined ? {} : { kvAt: placement.kept.workerId }),
    };
    const router = routers[key % routers.length]!;
    heap.after(timing.hopMs, () => router.request(key, request, placement.names.hashes));
  }

  #tellBooked({ record, request, names }: Placement, reply: RouteReply & { kind: 'place' }): void {
    const { routerId, prefill, kvAt } = reply;
    const booked = (
      booking: { decisionId: string; workerId: string; expectedCachedTokens: number },
      more: { maxTokens?: number; isFetched?: true; kvAt?: string },
    ): LifeMessage => {
      const event: LifeEvent = {
        kind: 'booked',
        decisionId: booking.decisionId,
        routerId,
        workerId: booking.workerId,
        promptTokens: record.promptTokens,
        maxTokens: request.maxTokens,
        expectedCachedTokens: booking.expectedCachedTokens,
        blocks: names.hashes.length >> 1,
        ...more,
      };
      return { event, hashes: names.hashes };
    };
    const isFetched = prefill !== undefined || kvAt !== undefined;
    const staged = kvAt === undefined ? {} : { kvAt };
    const told = [booked(reply, isFetched ? { isFetched, ...staged } : {})];
    if (prefill !== undefined) told.push(booked(prefill, { maxTokens: 1 }));
    this.#tell(told);
  }

  #beginLeg(key: number, placement: Placement, place: PrefillPlace): void {
    const { heap, timing } = this.#ports;
    placement.record.splits++;
    const host: PrefillLegHost = {
      tell: (event) => this.#tell([{ event, hashes: NO_HASHES }]),
      cancel: ({ key: legKey, workerId }) => {
        this.#legs.delete(legKey);
        heap.after(timing.hopMs, () => this.#ports.worker(workerId)?.abort(legKey));
      },
      over: ({ key: legKey }, result) => {
        this.#legs.delete(legKey);
        this.#onLegOver(key, placement, result);
      },
    };
    const leg = new SimPrefillLeg(this.#nextKey++, place, host, heap.nowMs);
    placement.leg = leg;
    this.#legs.set(leg.key, leg);
    heap.after(timing.hopMs, () => {
      if (!leg.isRunning) return;
      const worker = this.#ports.worker(leg.workerId);
      if (worker?.isAlive !== true) leg.lose('failed');
      else if (!worker.submit(leg.key, placement.request, placement.names, { kind: 'stage' })) {
        leg.lose('rejected');
      }
    });
  }

  #onLegOver(key: number, placement: Placement, result: 'staged' | 'failed'): void {
    const { leg } = placement;
    if (leg === undefined || this.#placements.get(key) !== placement) return;
    if (result === 'staged') {
      this.#send(key, placement);
      return;
    }
    placement.leg = undefined;
    if (leg.place.onFailure === 'prefill-locally') this.#send(key, placement);
    else this.#giveUp(key, placement);
  }

  /** Gives KV that was kept to the new placement, if the router sent it to a worker that can fetch it; else gives it up. */
  #resume(placement: Placement, kvAt: string | undefined): void {
    const { kept } = placement;
    placement.kept = undefined;
    if (kept !== undefined && kvAt === kept.workerId) placement.leg = kept;
    else kept?.giveUp();
  }

  /** The work arrives one hop later, and tells where the KV is if it was staged. */
  #send(key: number, placement: Placement): void {
    const { leg } = placement;
    const part: KvPart | undefined = leg && {
      kind: 'fetch',
      source: {
        prefillWorkerId: leg.workerId,
        key: leg.key,
        validForMs: leg.validForMs(this.#ports.heap.nowMs),
      },
    };
    this.#ports.heap.after(this.#ports.timing.hopMs, () => {
      if (this.#placements.get(key) !== placement) return;
      const worker = this.#ports.worker(placement.record.workerId ?? '');
      if (worker?.isAlive !== true) this.#replace(key, placement, 'failed');
      else if (!worker.submit(key, placement.request, placement.names, part)) {
        this.#replace(key, placement, 'rejected');
      } else if (leg !== undefined) leg.isOffered = true;
    });
  }

  /** The decode worker could not fetch what was staged; it is not to blame. */
  #onKvLost(key: number, placement: Placement): void {
    if (placement.leg?.place.onFailure === 'fail') {
      this.#giveUp(key, placement);
      return;
    }
    placement.isWhole = true;
    this.#replace(key, placement, 'failed', false);
  }

  #giveUp(key: number, placement: Placement): void {
    placement.record.isGivenUp = true;
    this.#tell([this.#end(key, placement, 'failed')]);
  }

  #replace(
    key: number,
    placement: Placement,
    outcome: 'failed' | 'rejected',
    isToBlame = true,
  ): void {
    const { record } = placement;
    if (record.placements >= limit('placementAttempts')) {
      this.#tell([this.#end(key, placement, outcome)]);
      return;
    }
    this.#placements.delete(key);
    const { leg } = placement;
    if (leg?.mayBeKept(this.#ports.heap.nowMs) === true) placement.kept = leg;
    else leg?.giveUp();
    placement.leg = undefined;
    this.#tell([this.#endedEvent(placement, outcome)]);
    if (record.workerId !== undefined && isToBlame) placement.excluded.push(record.workerId);
    placement.decisionId = '';
    this.#ask(placement);
  }

  #end(key: number, placement: Placement, outcome: Outcome): LifeMessage {
    const { record } = placement;
    this.#placements.delete(key);
    if (outcome === 'completed') placement.leg?.handOver();
    else placement.leg?.giveUp();
    placement.kept?.giveUp();
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
