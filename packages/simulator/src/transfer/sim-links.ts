import { type FetchReport, type LinkFigures, LinkLedger } from '@busbar/links';
import { type LinkRecord, PROTOCOL_VERSION } from '@busbar/protocol';
import type { EventHeap } from '../event-heap.ts';

/** Records of one link are published at most this often, as live. */
const MIN_GAP_MS = 1_000;

interface Entry {
  figures: LinkFigures;
  sentMs: number;
  isPlanned: boolean;
}

/** What a decode worker measures of the ways into it, and when it says so. The account itself is the live one. */
export class SimLinks {
  readonly #ledger: LinkLedger;
  readonly #heap: EventHeap;
  readonly #publish: (record: LinkRecord) => void;
  readonly #entries = new Map<string, Entry>();

  constructor(decodeWorkerId: string, heap: EventHeap, publish: (record: LinkRecord) => void) {
    this.#ledger = new LinkLedger(decodeWorkerId, 'tcp');
    this.#heap = heap;
    this.#publish = publish;
  }

  /** Transfers that run. */
  get running(): number {
    return this.#ledger.running;
  }

  probed(prefillWorkerId: string, bytesPerMs: number, latencyMs: number): void {
    const result = { bytesPerMs, latencyMs };
    this.#tell(this.#ledger.probed(prefillWorkerId, result, this.#heap.nowMs));
  }

  began(key: number, prefillWorkerId: string): void {
    this.#ledger.began(key, prefillWorkerId, this.#heap.nowMs);
  }

  ended(key: number, end: FetchReport): void {
    const figures = this.#ledger.ended(key, end, this.#heap.nowMs);
    if (figures !== undefined) this.#tell(figures);
  }

  /** The prefill worker is gone for good. */
  forget(prefillWorkerId: string): void {
    this.#ledger.forget(prefillWorkerId);
    this.#entries.delete(prefillWorkerId);
  }

  #tell(figures: LinkFigures): void {
    const id = figures.prefillWorkerId;
    const entry = this.#entries.get(id) ?? { figures, sentMs: -Infinity, isPlanned: false };
    this.#entries.set(id, entry);
    entry.figures = figures;
    if (entry.isPlanned) return;
    entry.isPlanned = true;
    this.#heap.at(entry.sentMs + MIN_GAP_MS, () => {
      if (this.#entries.get(id) !== entry) return;
      entry.isPlanned = false;
      entry.sentMs = this.#heap.nowMs;
      const updatedAt = new Date(Math.floor(this.#heap.nowMs)).toISOString();
      this.#publish({ ...entry.figures, protocol: PROTOCOL_VERSION, updatedAt });
    });
  }
}
