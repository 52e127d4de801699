import type { BusMessage } from '@busbar/bus';
import {
  decodeHeldDecisions,
  decodeKvBatch,
  decodeLifeBatch,
  decodeRouteRequest,
  decodeWorkerLoad,
  encodeRouteReply,
  type LinkRecord,
  lastToken,
  ProtocolError,
  type RouteReply,
  type WorkerInfo,
} from '@busbar/protocol';
import type { KvSnapshot, RouterCore, RouterEffect } from '@busbar/routing';
import type { ServiceContext } from '@busbar/service';
import type { Span } from '@busbar/telemetry';
import { Attention } from './attention.ts';
import type { Convergence } from './convergence.ts';
import type { DecisionLog } from './decision-log.ts';
import { KvSyncer } from './kv-sync.ts';
import type { RouterMetrics } from './metrics.ts';
import type { TruthBoard } from './truth-board.ts';
import { newWorkerStats, type WorkerStats } from './worker-stats.ts';

/** An alarm that rings so late tells of a process that stood still; what came meanwhile must be read before time counts. */
const LATE_MS = 250;
const CATCH_UP_MS = 100;

type ReplyEffect = Extract<RouterEffect, { kind: 'reply' }>;

export interface DeskParts {
  core: RouterCore;
  metrics: RouterMetrics;
  decisions: DecisionLog;
  truth: TruthBoard;
  convergence: Convergence;
  fetchSnapshot: (workerId: string, signal: AbortSignal) => Promise<KvSnapshot>;
}

/** Puts what the bus says before the core, and carries out what the core answers, in order. */
export class Desk {
  readonly stats = new Map<string, WorkerStats>();
  readonly attention: Attention;
  readonly #context: ServiceContext;
  readonly #parts: DeskParts;
  readonly #syncer: KvSyncer;
  /** Requests that wait for an answer, with their asker. */
  readonly #asked = new Map<number, { message: BusMessage; frontendId: string; span: Span }>();
  #nextKey = 1;
  #isCatchingUp = false;
  #wake: { atMs: number; timer: NodeJS.Timeout } | undefined;

  constructor(context: ServiceContext, parts: DeskParts) {
    this.#context = context;
    this.#parts = parts;
    this.attention = new Attention(context, (nowMs) =>
      this.#carryOut(parts.core.onListening(nowMs)),
    );
    this.#syncer = new KvSyncer(parts.fetchSnapshot, (workerId, result) =>
      this.#onSynced(workerId, result),
    );
  }

  get queued(): number {
    return this.#asked.size;
  }

  get syncing(): number {
    return this.#syncer.running;
  }

  onRoute(message: BusMessage): void {
    const beganMs = this.#now();
    const key = this.#nextKey++;
    const decoded = this.#read('route', () => decodeRouteRequest(message.data));
    if (decoded === undefined) {
      const text = 'the request does not follow the protocol';
      this.#answer(message, { kind: 'reject', code: 'ROUTER_BAD_REQUEST', message: text });
      return;
    }
    const { frontendId, traceparent, model } = decoded.request;
    const span = this.#context.tracer.start('route', traceparent, { model });
    this.#asked.set(key, { message, frontendId, span });
    this.#carryOut(this.#parts.core.onRequest({ key, ...decoded }, beganMs));
    this.#parts.metrics.decisionSeconds.observe((this.#now() - beganMs) / 1000);
  }

  onKv(message: BusMessage): void {
    const workerId = lastToken(message.subject);
    const batch = this.#read('kv', () => decodeKvBatch(message.data));
    if (batch === undefined) return;
    const nowMs = this.#now();
    const stats = this.stats.get(workerId);
    if (stats !== undefined) {
      stats.kvBatches++;
      stats.lastKvAtMs = nowMs;
    }
    this.#carryOut(this.#parts.core.onKv(workerId, batch, nowMs));
  }

  onLoad(message: BusMessage): void {
    const workerId = lastToken(message.subject);
    const load = this.#read('load', () => decodeWorkerLoad(message.data));
    if (load === undefined) return;
    const nowMs = this.#now();
    const stats = this.stats.get(workerId);
    if (stats !== undefined) stats.lastLoadAtMs = nowMs;
    this.#carryOut(this.#parts.core.onLoad(workerId, load, nowMs));
  }

  onLife(message: BusMessage): void {
    const batch = this.#read('life', () => decodeLifeBatch(message.data));
    if (batch === undefined) return;
    const { frontendId, events, hashes } = batch;
    const nowMs = this.#now();
    for (let at = 0; at < events.length; at++) {
      const event = events[at]!;
      if (event.kind === 'booked') this.#parts.convergence.onSeen(event.decisionId, nowMs);
      this.#carryOut(this.#parts.core.onLife(frontendId, event, hashes[at]!, nowMs));
    }
  }

  onHeld(message: BusMessage): void {
    const held = this.#read('held', () => decodeHeldDecisions(message.data));
    if (held === undefined) return;
    const frontendId = lastToken(message.subject);
    this.#carryOut(this.#parts.core.onHeld(frontendId, held, this.#now()));
  }

  onWorkerJoined(workerId: string, epoch: number, info: WorkerInfo): void {
    this.#context.log.info(
      { workerId, workerRole: info.role, model: info.model, kvBlocks: info.kvBlocks },
      'worker joined',
    );
    const nowMs = this.#now();
    this.stats.set(workerId, newWorkerStats(nowMs));
    this.#carryOut(this.#parts.core.onWorkerJoined(workerId, epoch, info, nowMs));
  }

  onWorkerChanged(workerId: string, epoch: number, info: WorkerInfo): void {
    this.#context.log.info({ workerId, loras: info.loras }, 'worker changed');
    this.#carryOut(this.#parts.core.onWorkerJoined(workerId, epoch, info, this.#now()));
  }

  onWorkerLeft(workerId: string, wasDraining: boolean): void {
    this.#context.log.info({ workerId, wasDraining }, 'worker left');
    this.stats.delete(workerId);
    this.#syncer.cancel(workerId);
    this.#parts.truth.onWorkerLeft(workerId);
    if (!wasDraining) {
      this.#context.publishEvent('worker.left', workerId, { reason: 'its lease expired' });
    }
    this.#carryOut(this.#parts.core.onWorkerLeft(workerId, this.#now()));
  }

  onLink(record: LinkRecord): void {
    this.#carryOut(this.#parts.core.onLink(record, this.#now()));
  }

  onLinkGone(prefillWorkerId: string, decodeWorkerId: string): void {
    this.#carryOut(this.#parts.core.onLinkGone(prefillWorkerId, decodeWorkerId));
  }

  onFrontendLeft(frontendId: string): void {
    const nowMs = this.#now();
    for (const [key, asked] of this.#asked) {
      if (asked.frontendId !== frontendId) continue;
      this.#asked.delete(key);
      asked.span.end('the asker left');
      this.#carryOut(this.#parts.core.onRequestCancelled(key));
    }
    this.#carryOut(this.#parts.core.onFrontendLeft(frontendId, nowMs));
  }

  stop(): void {
    this.attention.stop();
    clearTimeout(this.#wake?.timer);
    this.#syncer.stop();
    const reply: RouteReply = {
      kind: 'reject',
      code: 'ROUTER_DEADLINE',
      message: 'this router stops',
      retryAfterMs: 100,
    };
    for (const { message, span } of this.#asked.values()) {
      this.#answer(message, reply);
      span.end(reply.code);
    }
    this.#asked.clear();
  }

  #now(): number {
    return this.attention.nowMs();
  }

  /** Undefined for a message that does not follow the protocol: it is counted and dropped. */
  #read<T>(subject: string, decode: () => T): T | undefined {
    try {
      return decode();
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#parts.metrics.onBadFrame(subject);
      this.#context.log.debug({ subject, reason: error.message.slice(0, 500) }, 'bad frame');
      return undefined;
    }
  }

  #carryOut(effects: readonly RouterEffect[]): void {
    for (const effect of effects) {
      switch (effect.kind) {
        case 'reply':
          this.#reply(effect);
          break;
        case 'sync':
          this.#sync(effect.workerId, effect.reason);
          break;
        case 'truth':
          this.#parts.truth.onChange(effect);
          this.#parts.metrics.onTruth(effect);
          break;
        case 'pairRefused': {
          const { kind: _, ...fields } = effect;
          this.#context.log.warn(fields, 'a prefill and a decode worker cannot exchange KV');
          break;
        }
        case 'transferred':
          this.#parts.metrics.onTransferred(effect);
          break;
        case 'unheld': {
          const { frontendId, bookings } = effect;
          this.#context.log.info({ frontendId, bookings }, 'bookings that their frontend lacks');
          this.#parts.metrics.onUnheld(bookings);
          break;
        }
        case 'wake':
          this.#wakeAt(effect.atMs);
          break;
      }
    }
  }

  #reply({ key, reply, record }: ReplyEffect): void {
    const asked = this.#asked.get(key);
    if (asked === undefined) return;
    this.#asked.delete(key);
    this.#answer(asked.message, reply);
    if (reply.kind === 'place') {
      this.#parts.convergence.onPlaced(reply.decisionId, this.#now());
      const { workerId, expectedCachedTokens, prefill } = reply;
      asked.span.set({ workerId, expectedCachedTokens });
      if (prefill !== undefined) asked.span.set({ prefillWorkerId: prefill.workerId });
    }
    asked.span.end(reply.kind === 'reject' ? reply.code : undefined);
    if (record === undefined) return;
    this.#parts.decisions.add(record, this.#context.clock.wallMs());
    this.#parts.metrics.onRecord(record);
  }

  #answer(message: BusMessage, reply: RouteReply): void {
    message.respond(encodeRouteReply(reply));
    this.#parts.metrics.onReply(reply.kind === 'place' ? 'placed' : reply.code);
  }

  #sync(workerId: string, reason: 'joined' | 'gap' | 'epoch' | 'heartbeat'): void {
    const stats = this.stats.get(workerId);
    if (stats !== undefined) stats.syncs[reason]++;
    this.#context.log.debug({ workerId, reason }, 'fetching the block set of a worker');
    this.#syncer.start(workerId);
  }

  #onSynced(workerId: string, result: KvSnapshot | Error): void {
    const nowMs = this.#now();
    if (!(result instanceof Error)) {
      this.#carryOut(this.#parts.core.onKvSnapshot(workerId, result, nowMs));
      return;
    }
    const stats = this.stats.get(workerId);
    if (stats !== undefined) stats.failedSyncs++;
    const fields = { workerId, reason: result.message };
    this.#context.log.warn(fields, 'the block set of a worker could not be fetched');
    this.#carryOut(this.#parts.core.onKvSyncFailed(workerId, nowMs));
  }

  #wakeAt(atMs: number): void {
    if (this.#wake !== undefined && this.#wake.atMs <= atMs) return;
    clearTimeout(this.#wake?.timer);
    const timer = setTimeout(() => this.#onAlarm(atMs), Math.max(1, Math.ceil(atMs - this.#now())));
    this.#wake = { atMs, timer };
  }

  #onAlarm(atMs: number): void {
    this.#wake = undefined;
    const nowMs = this.#now();
    // Postponed once, so that a process that is always late still keeps its deadlines.
    this.#isCatchingUp = !this.#isCatchingUp && nowMs - atMs > LATE_MS;
    if (this.#isCatchingUp) this.#wakeAt(nowMs + CATCH_UP_MS);
    else this.#carryOut(this.#parts.core.onTick(nowMs));
  }
}
