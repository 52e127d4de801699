import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '@busbar/base';
import { type Bus, BusError, type BusMessage } from '@busbar/bus';
import {
  decodeRouteReply,
  encodeRouteRequest,
  type HashWords,
  limit,
  type RouteReply,
  type RouteRequest,
  type Subjects,
} from '@busbar/protocol';
import type { Candidate } from '../candidate.ts';
import { FrontendError } from '../errors.ts';
import type { Place } from './bookings.ts';
import type { DecisionHoldings } from './decision-holdings.ts';

/** A router may hear of a new worker a little later than the frontend: how long to ask again, and how often. */
const LAG_MS = 1_000;
const LAG_RETRY_MS = 50;
/** The answer may be on its way when the router's own deadline has passed. */
const REPLY_SLACK_MS = 250;
/** Routers that died or hang with the question are replaced by asking once more. */
const ASKS = 2;
const REQUEST_HEADER_BYTES = 16_384;

type RouteRejection = Extract<RouteReply, { kind: 'reject' }>;

/**
 * Asks a router where a candidate goes: those with a lease by name and in turn, so that one that hangs is asked until its lease is gone
 * and no longer. Members of a queue group would get their share as long as they are connected.
 */
export class PlacementClient {
  readonly #bus: Bus;
  readonly #subjects: Subjects;
  readonly #frontendId: string;
  /** Whether a worker of the model is known to be ready here. */
  readonly #hasWorkers: (model: string, lora: string | undefined) => boolean;
  readonly #readyRouters: () => readonly string[];
  readonly #giveBack: (model: string, place: Place) => void;
  readonly #holdings: DecisionHoldings;
  readonly #onGivenUp: () => void;
  #turn = 0;

  constructor(options: {
    bus: Bus;
    subjects: Subjects;
    frontendId: string;
    hasWorkers: (model: string, lora: string | undefined) => boolean;
    readyRouters: () => readonly string[];
    /** Called with a decision that came when nobody waited for it any more; it is a booking all the same. */
    giveBack: (model: string, place: Place) => void;
    holdings: DecisionHoldings;
    /** Nobody waits for an answer any more that may still be made. */
    onGivenUp: () => void;
  }) {
    this.#bus = options.bus;
    this.#subjects = options.subjects;
    this.#frontendId = options.frontendId;
    this.#hasWorkers = options.hasWorkers;
    this.#readyRouters = options.readyRouters;
    this.#giveBack = options.giveBack;
    this.#holdings = options.holdings;
    this.#onGivenUp = options.onGivenUp;
  }

  /**
   * The router's decision, which is a booking that must be ended by a `life` event. Throws what the router rejected, or
   * why no router answered. `isWanted` is asked between tries.
   */
  async place(
    candidate: Candidate,
    traceparent: string | undefined,
    isWanted: () => boolean,
  ): Promise<Place> {
    const { model, lora } = candidate.generation;
    for (let waitedMs = 0; ; waitedMs += LAG_RETRY_MS) {
      const reply = await this.#ask(candidate, traceparent);
      if (reply.kind === 'place') return reply;
      const mayLag =
        reply.code === 'ROUTER_NO_WORKERS' &&
        candidate.excluded.length === 0 &&
        waitedMs < LAG_MS &&
        isWanted() &&
        this.#hasWorkers(model, lora);
      if (!mayLag) throw this.#rejection(reply, candidate);
      await sleep(LAG_RETRY_MS);
    }
  }

  /** What the client is told: the last refusal of a worker says more than that no other is left. */
  #rejection(reply: RouteRejection, { generation, lastRefusal }: Candidate): AppError {
    const { model, lora } = generation;
    const isNoneLeft = reply.code === 'ROUTER_NO_WORKERS';
    if (isNoneLeft && lastRefusal === 'WORKER_FULL') {
      return new AppError('WORKER_FULL', reply.message);
    }
    if (lora === undefined) return new AppError(reply.code, reply.message);
    const isNowhere =
      isNoneLeft && !this.#hasWorkers(model, lora) && this.#hasWorkers(model, undefined);
    const isRefused = isNoneLeft || reply.code === 'ROUTER_DEADLINE';
    if (isNowhere || (isRefused && lastRefusal === 'WORKER_NO_MODEL')) {
      return new AppError('WORKER_NO_MODEL', `The model "${lora}" does not exist.`);
    }
    if (!isNoneLeft) return new AppError(reply.code, reply.message);
    const message = `The model "${lora}" cannot answer now: ${reply.message}.`;
    return new FrontendError('FRONTEND_MODEL_UNAVAILABLE', message);
  }

  async #ask(candidate: Candidate, traceparent: string | undefined): Promise<RouteReply> {
    const { prompt, generation, excluded, isWhole, kept } = candidate;
    const { model, lora } = generation;
    const deadlineMs = limit('routeTimeoutMs');
    const fields = {
      model,
      frontendId: this.#frontendId,
      promptTokens: prompt.tokens.length,
      maxTokens: prompt.maxTokens,
      deadlineMs,
      ...(excluded.length > 0 ? { excluded } : {}),
      ...(lora === undefined ? {} : { lora }),
      ...(isWhole ? { isWhole } : {}),
      ...(kept === undefined ? {} : { kvAt: kept.workerId }),
      ...(traceparent === undefined ? {} : { traceparent }),
    };
    const hashes = fitting(prompt.hashes);
    let router = this.#nextRouter();
    for (let ask = 1; ; ask++) {
      try {
        return await this.#askAny(fields, hashes, router);
      } catch (error) {
        if (!(error instanceof BusError)) throw error;
        if (error.code === 'BUS_NO_RESPONDERS') {
          throw new FrontendError('FRONTEND_NO_ROUTER', error.message, { cause: error });
        }
        if (error.code !== 'BUS_TIMEOUT') throw error;
        if (ask === ASKS) {
          throw new FrontendError('FRONTEND_ROUTER_SILENT', error.message, { cause: error });
        }
        router = this.#nextRouter(router);
      }
    }
  }

  /** The router whose turn it is; another one than `silent` where there is one. Undefined when none holds a lease. */
  #nextRouter(silent?: string): string | undefined {
    const routers = this.#readyRouters();
    const next = (): string | undefined => routers[this.#turn++ % routers.length];
    const router = next();
    return router === silent ? next() : router;
  }

  /** Any router when the named one is gone: its lease lives a little longer. */
  async #askAny(
    fields: RouteRequest,
    hashes: HashWords,
    router: string | undefined,
  ): Promise<RouteReply> {
    const anyone = this.#subjects.route(fields.model);
    if (router === undefined) return this.#askOnce(anyone, fields, hashes);
    try {
      return await this.#askOnce(this.#subjects.routeTo(router), fields, hashes);
    } catch (error) {
      if (!(error instanceof BusError) || error.code !== 'BUS_NO_RESPONDERS') throw error;
      return this.#askOnce(anyone, fields, hashes);
    }
  }

  /** A placement in the answer is held when this resolves; one that comes later is given back. */
  async #askOnce(subject: string, fields: RouteRequest, hashes: HashWords): Promise<RouteReply> {
    const { deadlineMs } = fields;
    const ask = this.#holdings.ask();
    try {
      const message = await this.#bus.request(
        subject,
        encodeRouteRequest({ ...fields, ask }, hashes),
        {
          timeoutMs: deadlineMs + REPLY_SLACK_MS,
          onLate: ({ data }: BusMessage): void => {
            const late = decodeRouteReply(data);
            if (late.kind === 'place') this.#giveBack(fields.model, late);
          },
        },
      );
      const reply = decodeRouteReply(message.data);
      if (reply.kind === 'place') this.#holdings.take(ask, reply);
      return reply;
    } catch (error) {
      if (error instanceof BusError && error.code === 'BUS_TIMEOUT') this.#onGivenUp();
      throw error;
    } finally {
      this.#holdings.settle(ask);
    }
  }
}

/** A prefix of the hashes that fits into one message; only a million tokens in tiny blocks are longer. */
function fitting(hashes: HashWords): HashWords {
  const maxWords = Math.floor((limit('messageBytes') - REQUEST_HEADER_BYTES) / 8) * 2;
  return hashes.length <= maxWords ? hashes : hashes.subarray(0, maxWords);
}
