import { assert } from '@busbar/base';
import type { PairView, RouterEffect } from '../types.ts';
import type { WorkerRow } from '../workers/worker-row.ts';
import type { Link } from './link.ts';
import type { LinkTable } from './link-table.ts';
import { pairRefusal } from './pair-refusal.ts';

/** A prefill worker and a decode worker of one model that can exchange KV. */
export interface Pair {
  readonly prefill: WorkerRow;
  readonly decode: WorkerRow;
  readonly link: Link;
}

interface Refused {
  readonly prefill: WorkerRow;
  readonly decode: WorkerRow;
  readonly refusal: string;
}

const NO_PAIRS: readonly Pair[] = [];

/** All pairs, judged once when the second of the two joins. */
export class PairTable {
  readonly #links: LinkTable;
  /** By slot of the decode worker. */
  readonly #bySlot: (Pair[] | undefined)[] = [];
  readonly #pairs = new Set<Pair>();
  readonly #refused = new Set<Refused>();

  constructor(links: LinkTable) {
    this.#links = links;
  }

  get size(): number {
    return this.#pairs.size;
  }

  /** A worker joined; `others` are those of the other role that serve its model. */
  onJoined(row: WorkerRow, others: readonly WorkerRow[], effects: RouterEffect[]): void {
    const isPrefill = row.info.role === 'prefill';
    for (const other of others) {
      const [prefill, decode] = isPrefill ? [row, other] : [other, row];
      const refusal = pairRefusal(prefill.info, decode.info);
      if (refusal === undefined) {
        const pair = { prefill, decode, link: this.#links.open(prefill, decode) };
        this.#pairs.add(pair);
        (this.#bySlot[decode.slot] ??= []).push(pair);
        continue;
      }
      this.#refused.add({ prefill, decode, refusal });
      effects.push({
        kind: 'pairRefused',
        prefillWorkerId: prefill.workerId,
        decodeWorkerId: decode.workerId,
        model: row.info.model,
        reason: refusal,
      });
    }
  }

  onLeft(row: WorkerRow): void {
    for (const refused of this.#refused) {
      if (refused.prefill === row || refused.decode === row) this.#refused.delete(refused);
    }
    for (const pair of this.#pairs) {
      if (pair.prefill !== row && pair.decode !== row) continue;
      this.#pairs.delete(pair);
      this.#links.close(pair.link);
      const { slot } = pair.decode;
      const rest = this.of(slot).filter((other) => other !== pair);
      this.#bySlot[slot] = rest.length === 0 ? undefined : rest;
    }
  }

  /** Pairs of the decode worker with this slot. */
  of(slot: number): readonly Pair[] {
    return this.#bySlot[slot] ?? NO_PAIRS;
  }

  find(prefill: WorkerRow, decode: WorkerRow): Pair | undefined {
    return this.of(decode.slot).find((pair) => pair.prefill === prefill);
  }

  /** Why workers of the model cannot make pairs, of the first that were refused. */
  refusalOf(model: string): string | undefined {
    for (const { prefill, refusal } of this.#refused) {
      if (prefill.info.model === model) return refusal;
    }
    return undefined;
  }

  /** Every pair and everything that is none, by the names of the workers. */
  views(nowMs: number): PairView[] {
    const views: PairView[] = [];
    for (const { prefill, decode, link } of this.#pairs)
      views.push(viewOf(prefill, decode, link, nowMs));
    for (const { prefill, decode, refusal } of this.#refused) {
      views.push({
        ...namesOf(prefill, decode),
        refusal,
        bytesPerMs: 0,
        latencyMs: 0,
        source: 'assumed',
        isStale: false,
        isProven: false,
        transfers: 0,
        failures: 0,
        bookedBytes: 0,
      });
    }
    const key = (view: PairView): string => `${view.prefillWorkerId}.${view.decodeWorkerId}`;
    return views.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
  }

  checkInvariants(rows: Iterable<WorkerRow>): void {
    const known = new Set(rows);
    let listed = 0;
    for (const pairs of this.#bySlot) listed += pairs?.length ?? 0;
    assert(listed === this.#pairs.size, 'every pair is listed by its decode worker');
    for (const { prefill, decode } of [...this.#pairs, ...this.#refused]) {
      assert(known.has(prefill) && known.has(decode), 'pairs are of workers that are here');
      assert(prefill.info.role === 'prefill' && decode.info.role === 'decode', 'one of each role');
      assert(prefill.info.model === decode.info.model, 'pairs are of one model');
    }
  }
}

function namesOf(prefill: WorkerRow, decode: WorkerRow) {
  return {
    prefillWorkerId: prefill.workerId,
    decodeWorkerId: decode.workerId,
    model: decode.info.model,
  };
}

function viewOf(prefill: WorkerRow, decode: WorkerRow, link: Link, nowMs: number): PairView {
  const { record, suspicion } = link;
  return {
    ...namesOf(prefill, decode),
    bytesPerMs: link.bytesPerMs(nowMs),
    latencyMs: link.latencyMs,
    source: link.source,
    isStale: link.isStale(nowMs),
    isProven: link.isProven,
    ...(suspicion.isOpen(nowMs) ? { suspectForMs: suspicion.untilMs - nowMs } : undefined),
    transfers: record?.transfers ?? 0,
    failures: record?.failures ?? 0,
    ...(record?.lastFailure === undefined ? undefined : { lastFailure: record.lastFailure }),
    bookedBytes: link.bookedBytes,
  };
}
