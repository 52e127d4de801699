import { assert } from '@busbar/base';
import type { EventHeap } from '../event-heap.ts';

/** Payload of an Ethernet frame of 1,538 bytes on the wire that carries TCP: 1,448 bytes. */
const PAYLOAD_SHARE = 1448 / 1538;
/** Two workers on one machine copy KV at about this rate: 608 MB/s were measured between two vLLM over NIXL. */
const SAME_HOST_BYTES_PER_MS = 608_000;
/** What is left of a flow below this is an error of rounding. */
const ROUNDING_BYTES = 0.5;

/** Bytes per millisecond that a network interface of `gbit` Gbit/s carries for the one who sends. */
export function payloadBytesPerMs(gbit: number): number {
  return gbit * 125_000 * PAYLOAD_SHARE;
}

export interface NetworkOptions {
  /** Rate of each host's network interface, in each direction, on the wire. */
  gbit: number;
  /** From the begin of a transfer to its first byte. */
  latencyMs: number;
}

/** What flows share: one direction of a host's interface, or the memory of a host. */
interface Lane {
  bytesPerMs: number;
  flows: Set<Flow>;
}

export interface Flow {
  readonly lanes: readonly Lane[];
  readonly bytes: number;
  /** Undefined until the first byte is on its way. */
  leftBytes: number | undefined;
  bytesPerMs: number;
  readonly done: () => void;
}

/**
 * Hosts with full-duplex interfaces and nothing between them that could be full. Transfers that run at once share each interface
 * fairly: none gets more while another one on the same interface could have it (max-min fairness, the aim of TCP).
 */
export class SimNetwork {
  readonly #heap: EventHeap;
  readonly #options: NetworkOptions;
  readonly #lanes = new Map<string, Lane>();
  /** Every transfer that was begun and is not over. */
  readonly #open = new Set<Flow>();
  readonly #moving = new Set<Flow>();
  #bytesMoved = 0;
  #sinceMs = 0;
  /** Counts changes of rates, so that a planned end knows that it is void. */
  #change = 0;

  constructor(heap: EventHeap, options: NetworkOptions) {
    this.#heap = heap;
    this.#options = options;
  }

  get latencyMs(): number {
    return this.#options.latencyMs;
  }

  /** Transfers that run. */
  get running(): number {
    return this.#open.size;
  }

  /** Bytes that arrived, those of broken transfers included. */
  get bytesMoved(): number {
    return this.#bytesMoved;
  }

  /** Rate that a transfer gets which is alone. */
  idleBytesPerMs(from: string, to: string): number {
    return Math.min(...this.#lanesOf(from, to).map((lane) => lane.bytesPerMs));
  }

  /** Begins a transfer between two hosts; `done` is called when the last byte is there. */
  start(from: string, to: string, bytes: number, done: () => void): Flow {
    const lanes = this.#lanesOf(from, to);
    const flow: Flow = { lanes, bytes, leftBytes: undefined, bytesPerMs: 0, done };
    this.#open.add(flow);
    this.#heap.after(this.#options.latencyMs, () => {
      if (!this.#open.has(flow)) return;
      this.#advance();
      flow.leftBytes = bytes;
      this.#moving.add(flow);
      for (const lane of lanes) lane.flows.add(flow);
      this.#share();
    });
    return flow;
  }

  /** Breaks a transfer off and answers what of it has arrived. */
  cut(flow: Flow): number {
    if (!this.#open.has(flow)) return flow.bytes;
    this.#advance();
    this.#remove(flow);
    this.#share();
    return flow.bytes - (flow.leftBytes ?? flow.bytes);
  }

  /** Throws unless nothing carries more than it can. */
  checkInvariants(): void {
    for (const [name, { bytesPerMs, flows }] of this.#lanes) {
      let sum = 0;
      for (const flow of flows) {
        assert(this.#moving.has(flow), `${name} carries a transfer that is over`);
        sum += flow.bytesPerMs;
      }
      assert(sum <= bytesPerMs * (1 + 1e-9), `${name} carries ${sum} of ${bytesPerMs} bytes/ms`);
    }
  }

  #lanesOf(from: string, to: string): Lane[] {
    const rate = payloadBytesPerMs(this.#options.gbit);
    if (from === to) return [this.#lane(`in ${from}`, SAME_HOST_BYTES_PER_MS)];
    return [this.#lane(`out of ${from}`, rate), this.#lane(`into ${to}`, rate)];
  }

  #lane(name: string, bytesPerMs: number): Lane {
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const lane = { bytesPerMs, flows: new Set<Flow>() };
    this.#lanes.set(name, lane);
    return lane;
  }

  #remove(flow: Flow): void {
    this.#bytesMoved += flow.bytes - (flow.leftBytes ?? flow.bytes);
    this.#open.delete(flow);
    this.#moving.delete(flow);
    for (const lane of flow.lanes) lane.flows.delete(flow);
  }

  /** Takes off what moved since the last look. */
  #advance(): void {
    const passedMs = this.#heap.nowMs - this.#sinceMs;
    this.#sinceMs = this.#heap.nowMs;
    for (const flow of this.#moving) {
      flow.leftBytes = Math.max(0, (flow.leftBytes ?? 0) - flow.bytesPerMs * passedMs);
    }
  }

  /** Gives each flow its rate: the narrowest lane deals out first, what its flows leave elsewhere is for the others. */
  #share(): void {
    const open = new Set(this.#moving);
    const left = new Map<Lane, { bytesPerMs: number; flows: number }>();
    for (const flow of open) {
      for (const lane of flow.lanes) {
        left.set(lane, { bytesPerMs: lane.bytesPerMs, flows: lane.flows.size });
      }
    }
    while (open.size > 0) {
      let narrowest: Lane | undefined;
      let share = Number.POSITIVE_INFINITY;
      for (const [lane, { bytesPerMs, flows }] of left) {
        if (flows === 0 || bytesPerMs / flows >= share) continue;
        narrowest = lane;
        share = bytesPerMs / flows;
      }
      assert(narrowest !== undefined, 'a flow that has no rate yet has a lane');
      for (const flow of narrowest.flows) {
        if (!open.delete(flow)) continue;
        flow.bytesPerMs = share;
        for (const lane of flow.lanes) {
          const rest = left.get(lane)!;
          rest.bytesPerMs = Math.max(0, rest.bytesPerMs - share);
          rest.flows--;
        }
      }
    }
    this.#planEnd();
  }

  #planEnd(): void {
    const change = ++this.#change;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { leftBytes = 0, bytesPerMs } of this.#moving) {
      nextMs = Math.min(nextMs, leftBytes / bytesPerMs);
    }
    if (nextMs === Number.POSITIVE_INFINITY) return;
    this.#heap.after(nextMs, () => {
      if (this.#change === change) this.#finish();
    });
  }

  #finish(): void {
    this.#advance();
    const over = [...this.#moving].filter(({ leftBytes = 0 }) => leftBytes <= ROUNDING_BYTES);
    for (const flow of over) this.#remove(flow);
    this.#share();
    for (const flow of over) flow.done();
  }
}
