import type { StagedEnd } from '../../port.ts';

/** Behind the lease the engine needs a step to free the blocks and count them. */
const COUNT_DELAY_MS = 1_000;

interface Entry {
  key: number;
  blocks: number;
  dueMs: number;
  isGivenUp: boolean;
}

export interface StagedKvHost {
  nowMs(): number;
  /** Requests whose KV nobody fetched within the lease, by the engine's own count; undefined when it does not say. */
  expiredTotal(): Promise<number | undefined>;
  ended(key: number, how: StagedEnd): void;
}

/**
 * KV that a prefill engine keeps for decode engines. vLLM tells nobody when one of them was fetched and takes no command to free it:
 * only a decode engine can end the lease. So an entry of which nobody says that it was fetched lives as long as the lease, and its
 * end is judged by the engine's count of expired requests.
 */
export class StagedKv {
  readonly #host: StagedKvHost;
  readonly #leaseMs: number;
  readonly #entries = new Map<number, Entry>();
  #expiredSeen: number;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  /** `expiredBefore`: what the engine has counted of earlier requests. */
  constructor(leaseMs: number, expiredBefore: number, host: StagedKvHost) {
    this.#leaseMs = leaseMs;
    this.#expiredSeen = expiredBefore;
    this.#host = host;
  }

  get blocks(): number {
    let blocks = 0;
    for (const entry of this.#entries.values()) blocks += entry.blocks;
    return blocks;
  }

  has(key: number): boolean {
    return this.#entries.has(key);
  }

  add(key: number, blocks: number): void {
    const dueMs = this.#host.nowMs() + this.#leaseMs + COUNT_DELAY_MS;
    this.#entries.set(key, { key, blocks, dueMs, isGivenUp: false });
    this.#arm();
  }

  /** Nobody wants it any more. The engine holds it until its lease ends all the same. */
  giveUp(key: number): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) entry.isGivenUp = true;
  }

  /** The decode engine has it, and with that the blocks are free. */
  fetched(key: number): void {
    if (this.#entries.delete(key)) this.#host.ended(key, 'fetched');
  }

  /** The engine's process is gone, and its blocks with it. */
  endAll(how: StagedEnd): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#expiredSeen = 0;
    const keys = [...this.#entries.keys()];
    this.#entries.clear();
    for (const key of keys) this.#host.ended(key, how);
  }

  stop(how: StagedEnd): void {
    this.#isStopped = true;
    this.endAll(how);
  }

  #arm(): void {
    // Leases are equally long: the first entry is the next due.
    const [first] = this.#entries.values();
    if (first === undefined || this.#timer !== undefined || this.#isStopped) return;
    this.#timer = setTimeout(
      () => void this.#onDue(),
      Math.max(0, first.dueMs - this.#host.nowMs()),
    );
    this.#timer.unref();
  }

  async #onDue(): Promise<void> {
    const total = await this.#host.expiredTotal().catch(() => undefined);
    this.#timer = undefined;
    const nowMs = this.#host.nowMs();
    const due = [...this.#entries.values()].filter((entry) => entry.dueMs <= nowMs);
    // Without a count, what was given up expired and the rest was fetched. What expired too many is of those that are due next.
    let expired =
      total === undefined
        ? due.filter((entry) => entry.isGivenUp).length
        : Math.max(0, total - this.#expiredSeen);
    this.#expiredSeen = (total ?? this.#expiredSeen) - Math.max(0, expired - due.length);
    due.sort((a, b) => Number(b.isGivenUp) - Number(a.isGivenUp));
    for (const { key } of due) {
      if (!this.#entries.delete(key)) continue;
      this.#host.ended(key, expired-- > 0 ? 'expired' : 'fetched');
    }
    this.#arm();
  }
}
