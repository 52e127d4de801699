import type { LinkRecord } from '@busbar/protocol';
import type { RateSource } from '../types.ts';
import { Suspicion } from './suspicion.ts';

/**
 * A rate of which nothing was heard for so long may have changed. It is then taken for no lower than the assumed one: too high a
 * guess is put right by the first transfer, one that is too low by none, since none is made.
 */
const STALE_MS = 600_000;
/** Time to open a connection and to ask for blocks, where nothing was measured. */
const ASSUMED_LATENCY_MS = 1;

/** What transfers share: one direction of a host's network interface, or the memory of a host that both workers run on. */
export interface Lane {
  readonly name: string;
  bookedBytes: number;
  /** Links that use it. */
  links: number;
}

/** All links between two hosts, in one direction. */
export interface Way {
  readonly name: string;
  readonly links: Set<Link>;
  /** Best rate that was measured on any of them, 0 when none was. */
  bytesPerMs: number;
}

/** The way of KV from one prefill worker to one decode worker. */
export class Link {
  readonly prefillWorkerId: string;
  readonly decodeWorkerId: string;
  readonly lanes: readonly Lane[];
  readonly way: Way;
  readonly suspicion = new Suspicion(0);
  readonly flights = new Set<Flight>();
  bookedBytes = 0;
  record: LinkRecord | undefined;
  heardMs = 0;
  readonly #assumedBytesPerMs: number;
  readonly #needsProof: boolean;

  /** `needsProof`: the first transfer takes much longer than others, and no request is to be that one. */
  constructor(
    ids: { prefillWorkerId: string; decodeWorkerId: string },
    lanes: readonly Lane[],
    way: Way,
    { assumedBytesPerMs, needsProof }: { assumedBytesPerMs: number; needsProof: boolean },
  ) {
    this.prefillWorkerId = ids.prefillWorkerId;
    this.decodeWorkerId = ids.decodeWorkerId;
    this.lanes = lanes;
    this.way = way;
    this.#assumedBytesPerMs = assumedBytesPerMs;
    this.#needsProof = needsProof;
  }

  /** Requests may be split over it. */
  get isProven(): boolean {
    return !this.#needsProof || this.record?.isProven === true;
  }

  get source(): RateSource {
    const { record } = this;
    if (record !== undefined && record.bytesPerMs > 0 && record.source !== 'none') {
      return record.source;
    }
    return this.way.bytesPerMs > 0 ? 'sibling' : 'assumed';
  }

  isStale(nowMs: number): boolean {
    return this.record !== undefined && nowMs - this.heardMs > STALE_MS;
  }

  bytesPerMs(nowMs: number): number {
    const measured = this.record?.bytesPerMs ?? 0;
    if (measured > 0) {
      return this.isStale(nowMs) ? Math.max(measured, this.#assumedBytesPerMs) : measured;
    }
    return this.way.bytesPerMs > 0 ? this.way.bytesPerMs : this.#assumedBytesPerMs;
  }

  get latencyMs(): number {
    const { record } = this;
    return record === undefined || record.source === 'none' ? ASSUMED_LATENCY_MS : record.latencyMs;
  }

  /** KV that is booked before a new transfer on anything that it would share. */
  get bytesAhead(): number {
    let most = 0;
    for (const lane of this.lanes) most = Math.max(most, lane.bookedBytes);
    return most;
  }

  /**
   * Milliseconds from the moment at which `bytes` are ready, `readyInMs` from now, until they are there: what is booked ahead moves on
   * until then, and shares the link with them after.
   */
  transferMs(bytes: number, readyInMs: number, nowMs: number): number {
    const bytesPerMs = this.bytesPerMs(nowMs);
    const aheadMs = Math.max(0, this.bytesAhead / bytesPerMs - readyInMs);
    return aheadMs + bytes / bytesPerMs + this.latencyMs;
  }

  /** Books a transfer; everything that shares a lane with it is predicted to take longer until it has landed. */
  book(bytes: number, predictedMs: number): Flight {
    const flight = new Flight(this, bytes, predictedMs);
    this.flights.add(flight);
    this.#add(bytes);
    return flight;
  }

  /** Takes a flight off the books; called by the flight, once. */
  release(flight: Flight): void {
    if (this.flights.delete(flight)) this.#add(-flight.bytes);
  }

  #add(bytes: number): void {
    this.bookedBytes += bytes;
    for (const lane of this.lanes) lane.bookedBytes += bytes;
  }
}

/** One transfer, from its decision until the decode worker's first token or the end of its request. */
export class Flight {
  readonly link: Link;
  readonly bytes: number;
  /** From the end of the prefill to the first token of the decode worker; 0 when another router predicted it. */
  readonly predictedMs: number;
  /** When the prefill was over, as far as this router heard of it. */
  readyMs: number | undefined;

  constructor(link: Link, bytes: number, predictedMs: number) {
    this.link = link;
    this.bytes = bytes;
    this.predictedMs = predictedMs;
  }

  /** It arrived, or never will. A second call does nothing. */
  land(): void {
    this.link.release(this);
  }
}
