import type { Bucket } from '@busbar/bus';
import type { LinkFigures } from '@busbar/links';
import { encodeLinkRecord, linkKey, PROTOCOL_VERSION } from '@busbar/protocol';

/** Every router wakes for each record, and a link changes with each transfer. */
const MIN_GAP_MS = 1_000;

interface Entry {
  key: string;
  figures: LinkFigures;
  sentAtMs: number;
  /** `figures` have changed since they were last sent. */
  isDirty: boolean;
  isSending: boolean;
  isGone: boolean;
  timer: NodeJS.Timeout | undefined;
}

export interface LinkPublisherOptions {
  bucket: Bucket;
  nowMs: () => number;
  wallMs: () => number;
  /** A record could not be written; it is tried again. */
  onError: (error: unknown) => void;
}

/** Writes the records of links: on change, at most one a second for each link. */
export class LinkPublisher {
  readonly #options: LinkPublisherOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: LinkPublisherOptions) {
    this.#options = options;
  }

  publish(figures: LinkFigures): void {
    const key = linkKey(figures.prefillWorkerId, figures.decodeWorkerId);
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      entry = {
        key,
        figures,
        sentAtMs: -Infinity,
        isDirty: true,
        isSending: false,
        isGone: false,
        timer: undefined,
      };
      this.#entries.set(key, entry);
    }
    entry.figures = figures;
    entry.isDirty = true;
    this.#pump(entry);
  }

  /** Writes all of them again: the server may have lost them. */
  republish(): void {
    for (const entry of this.#entries.values()) {
      entry.isDirty = true;
      this.#pump(entry);
    }
  }

  async remove(prefillWorkerId: string, decodeWorkerId: string): Promise<void> {
    const entry = this.#entries.get(linkKey(prefillWorkerId, decodeWorkerId));
    if (entry !== undefined) await this.#drop(entry);
  }

  /** Takes back every record. */
  async stop(): Promise<void> {
    await Promise.all([...this.#entries.values()].map((entry) => this.#drop(entry)));
  }

  async #drop(entry: Entry): Promise<void> {
    this.#entries.delete(entry.key);
    entry.isGone = true;
    clearTimeout(entry.timer);
    // A write that is on its way is followed by the delete.
    if (!entry.isSending && entry.sentAtMs > -Infinity) await this.#delete(entry);
  }

  async #delete(entry: Entry): Promise<void> {
    if (this.#entries.has(entry.key)) return;
    try {
      await this.#options.bucket.delete(entry.key);
    } catch (error) {
      this.#options.onError(error);
    }
  }

  #pump(entry: Entry): void {
    if (entry.isSending || entry.timer !== undefined || entry.isGone || !entry.isDirty) return;
    const waitMs = entry.sentAtMs + MIN_GAP_MS - this.#options.nowMs();
    if (waitMs <= 0) void this.#send(entry);
    else {
      entry.timer = setTimeout(() => {
        entry.timer = undefined;
        this.#pump(entry);
      }, waitMs);
    }
  }

  async #send(entry: Entry): Promise<void> {
    const { bucket, nowMs, wallMs, onError } = this.#options;
    entry.isSending = true;
    entry.isDirty = false;
    entry.sentAtMs = nowMs();
    const record = {
      ...entry.figures,
      protocol: PROTOCOL_VERSION,
      updatedAt: new Date(wallMs()).toISOString(),
    };
    try {
      await bucket.put(entry.key, encodeLinkRecord(record));
    } catch (error) {
      entry.isDirty = true;
      onError(error);
    }
    entry.isSending = false;
    if (entry.isGone) await this.#delete(entry);
    else this.#pump(entry);
  }
}
