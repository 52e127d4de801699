import { assert } from '@busbar/base';
import { type LinkRecord, linkKey, type WorkerInfo } from '@busbar/protocol';
import { type Lane, Link, type Way } from './link.ts';

/** Records that are kept, of workers that are here and of others; the one that was not renewed for longest goes first. */
const RECORDS = 65_536;

/** Every way between a prefill and a decode worker that can make a pair, with what decode workers measured of it. */
export class LinkTable {
  readonly #assumedBytesPerMs: number;
  /** The order is that of the last news. A record may come before its workers, and stays when they leave. */
  readonly #records = new Map<string, { record: LinkRecord; heardMs: number }>();
  readonly #links = new Map<string, Link>();
  readonly #lanes = new Map<string, Lane>();
  readonly #ways = new Map<string, Way>();

  constructor(assumedBytesPerMs: number) {
    this.#assumedBytesPerMs = assumedBytesPerMs;
  }

  /** The workers make a pair. */
  open(
    prefill: { workerId: string; info: WorkerInfo },
    decode: { workerId: string; info: WorkerInfo },
  ): Link {
    const key = linkKey(prefill.workerId, decode.workerId);
    assert(!this.#links.has(key), `link ${key} is already open`);
    const [from, to] = [hostOf(prefill), hostOf(decode)];
    const names = from === to ? [`in ${from}`] : [`out of ${from}`, `into ${to}`];
    const lanes = names.map((name) => this.#lane(name));
    for (const lane of lanes) lane.links++;
    const way = this.#way(`${from} to ${to}`);
    const ids = { prefillWorkerId: prefill.workerId, decodeWorkerId: decode.workerId };
    const link = new Link(ids, lanes, way, {
      assumedBytesPerMs: this.#assumedBytesPerMs,
      needsProof: decode.info.transfer?.protocol !== 'tcp',
    });
    const known = this.#records.get(key);
    link.record = known?.record;
    link.heardMs = known?.heardMs ?? 0;
    way.links.add(link);
    this.#links.set(key, link);
    refreshRate(way);
    return link;
  }

  /** One of the workers left: nothing is moved there any more. */
  close(link: Link): void {
    for (const flight of link.flights) flight.land();
    for (const lane of link.lanes) if (--lane.links === 0) this.#lanes.delete(lane.name);
    link.way.links.delete(link);
    if (link.way.links.size === 0) this.#ways.delete(link.way.name);
    else refreshRate(link.way);
    this.#links.delete(linkKey(link.prefillWorkerId, link.decodeWorkerId));
  }

  /** Whether requests may be split over the link from now on, and not before. */
  onRecord(record: LinkRecord, nowMs: number): boolean {
    const key = linkKey(record.prefillWorkerId, record.decodeWorkerId);
    this.#records.delete(key);
    this.#records.set(key, { record, heardMs: nowMs });
    if (this.#records.size > RECORDS) {
      for (const oldest of this.#records.keys()) {
        this.#records.delete(oldest);
        break;
      }
    }
    const link = this.#links.get(key);
    if (link === undefined) return false;
    const wasProven = link.isProven;
    const failed = record.failures > failuresBefore(link.record, record);
    const succeeded = record.transfers > (link.record?.transfers ?? 0);
    link.record = record;
    link.heardMs = nowMs;
    if (failed) link.suspicion.fail(nowMs);
    else if (succeeded) link.suspicion.succeed();
    refreshRate(link.way);
    return link.isProven && !wasProven;
  }

  onGone(prefillWorkerId: string, decodeWorkerId: string): void {
    const key = linkKey(prefillWorkerId, decodeWorkerId);
    this.#records.delete(key);
    const link = this.#links.get(key);
    if (link === undefined) return;
    link.record = undefined;
    refreshRate(link.way);
  }

  /** Throws unless what is booked is the sum of `flights` flights, on each link and on what links share. */
  checkInvariants(flights: number): void {
    const sums = new Map<Lane, { bytes: number; links: number }>();
    let found = 0;
    for (const [key, link] of this.#links) {
      let bytes = 0;
      for (const flight of link.flights) bytes += flight.bytes;
      found += link.flights.size;
      assert(link.bookedBytes === bytes, `link ${key}: booked bytes are the sum of its flights`);
      for (const lane of link.lanes) {
        const sum = sums.get(lane) ?? { bytes: 0, links: 0 };
        sums.set(lane, { bytes: sum.bytes + bytes, links: sum.links + 1 });
      }
    }
    assert(found === flights, `${found} flights are booked on links and ${flights} by requests`);
    for (const lane of this.#lanes.values()) {
      const sum = sums.get(lane) ?? { bytes: 0, links: 0 };
      assert(lane.bookedBytes === sum.bytes, `${lane.name}: booked bytes are the sum of its links`);
      assert(lane.links === sum.links && sum.links > 0, `${lane.name}: is counted by its links`);
    }
  }

  #lane(name: string): Lane {
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const lane = { name, bookedBytes: 0, links: 0 };
    this.#lanes.set(name, lane);
    return lane;
  }

  #way(name: string): Way {
    const known = this.#ways.get(name);
    if (known !== undefined) return known;
    const way = { name, links: new Set<Link>(), bytesPerMs: 0 };
    this.#ways.set(name, way);
    return way;
  }
}

/**
 * Failures that are no news. Sums of a restarted decode worker begin anew, so then all is news; of a link that is heard of for the
 * first time, failures count only when nothing ever came over it.
 */
function failuresBefore(before: LinkRecord | undefined, record: LinkRecord): number {
  if (before === undefined) return record.transfers > 0 ? record.failures : 0;
  const isRestarted = record.transfers < before.transfers || record.failures < before.failures;
  return isRestarted ? 0 : before.failures;
}

function refreshRate(way: Way): void {
  way.bytesPerMs = 0;
  for (const { record } of way.links) {
    way.bytesPerMs = Math.max(way.bytesPerMs, record?.bytesPerMs ?? 0);
  }
}

/** The host part of the endpoint. A worker that names none is taken for a host of its own. */
function hostOf({ workerId, info }: { workerId: string; info: WorkerInfo }): string {
  const endpoint = info.transfer?.endpoint;
  return endpoint === undefined
    ? `worker ${workerId}`
    : endpoint.slice(0, endpoint.lastIndexOf(':'));
}
