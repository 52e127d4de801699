import type { LinkRecord, TransferProtocol } from '@busbar/protocol';
import { LinkAccount, type LinkProbe } from './link-account.ts';

/** A fetch of KV that is over. */
export interface FetchReport {
  /** `busy`: the other side served others first. Nothing moved, and the link is not to blame. */
  outcome: 'ok' | 'failed' | 'cancelled' | 'busy';
  /** Bytes that arrived and were found right; where the engine does not say, what the prompt's length implies. */
  bytes: number;
  /** With `failed`: why, in a sentence. */
  reason?: string;
}

/** A `LinkRecord` but for what the sender of the record adds. */
export type LinkFigures = Omit<LinkRecord, 'protocol' | 'updatedAt'>;

const REASON_CHARS = 512;

interface Transfer {
  prefillWorkerId: string;
  account: LinkAccount;
  beganMs: number;
  fairMs: number;
}

/** What one decode worker has measured of the ways into it, by prefill worker. Times are arguments and do not go back. */
export class LinkLedger {
  readonly #decodeWorkerId: string;
  readonly #protocol: TransferProtocol;
  readonly #accounts = new Map<string, LinkAccount>();
  readonly #transfers = new Map<number, Transfer>();

  constructor(decodeWorkerId: string, protocol: TransferProtocol) {
    this.#decodeWorkerId = decodeWorkerId;
    this.#protocol = protocol;
  }

  /** Transfers that run on all links. */
  get running(): number {
    return this.#transfers.size;
  }

  /** A transfer from `prefillWorkerId` begins; `key` names it until it ends. A key that runs already is left as it is. */
  began(key: number, prefillWorkerId: string, nowMs: number): void {
    if (this.#transfers.has(key)) return;
    const account = this.#account(prefillWorkerId);
    const fairMs = account.begin(nowMs);
    this.#transfers.set(key, { prefillWorkerId, account, beganMs: nowMs, fairMs });
  }

  /** The figures of its link after the transfer; undefined for a key that does not run. */
  ended(key: number, end: FetchReport, nowMs: number): LinkFigures | undefined {
    const transfer = this.#transfers.get(key);
    if (transfer === undefined) return undefined;
    this.#transfers.delete(key);
    const { account, prefillWorkerId } = transfer;
    account.end(transfer.beganMs, transfer.fairMs, end.bytes, nowMs);
    if (end.outcome === 'ok') {
      account.transfers++;
      account.isProven = true;
    }
    if (end.outcome === 'failed') {
      account.failures++;
      account.lastFailure = (end.reason ?? 'no reason was given').slice(0, REASON_CHARS);
    }
    return this.#figuresOf(prefillWorkerId, account);
  }

  /** The prefill worker is here. */
  opened(prefillWorkerId: string): LinkFigures {
    return this.#figuresOf(prefillWorkerId, this.#account(prefillWorkerId));
  }

  /** A warm-up came over the link. Its time says nothing of later transfers. */
  proven(prefillWorkerId: string): LinkFigures {
    const account = this.#account(prefillWorkerId);
    account.isProven = true;
    return this.#figuresOf(prefillWorkerId, account);
  }

  /** A probe of the link came to its end. */
  probed(prefillWorkerId: string, result: LinkProbe, nowMs: number): LinkFigures {
    const account = this.#account(prefillWorkerId);
    account.probed(result, nowMs);
    return this.#figuresOf(prefillWorkerId, account);
  }

  /**
   * A probe that found nothing, or a warm-up that did not end. Where transfers take another path than probes it does not count as a
   * failure of the link.
   */
  probeFailed(prefillWorkerId: string, reason: string): LinkFigures {
    const account = this.#account(prefillWorkerId);
    if (this.#protocol === 'tcp') account.failures++;
    account.lastFailure = reason.slice(0, REASON_CHARS);
    return this.#figuresOf(prefillWorkerId, account);
  }

  /** Undefined for a link of which nothing was ever said. */
  figures(prefillWorkerId: string): LinkFigures | undefined {
    const account = this.#accounts.get(prefillWorkerId);
    return account === undefined ? undefined : this.#figuresOf(prefillWorkerId, account);
  }

  /** Figures of all links. */
  all(): LinkFigures[] {
    return [...this.#accounts].map(([id, account]) => this.#figuresOf(id, account));
  }

  /** When a transfer or a probe last said something of the link; minus infinity for never. A running transfer counts as now. */
  lastNewsMs(prefillWorkerId: string, nowMs: number): number {
    const account = this.#accounts.get(prefillWorkerId);
    if (account === undefined) return -Infinity;
    return account.running > 0 ? nowMs : account.lastNewsMs;
  }

  /** The prefill worker is gone. Its transfers that still run end without a trace. */
  forget(prefillWorkerId: string): void {
    this.#accounts.delete(prefillWorkerId);
    for (const [key, transfer] of this.#transfers) {
      if (transfer.prefillWorkerId === prefillWorkerId) this.#transfers.delete(key);
    }
  }

  #account(prefillWorkerId: string): LinkAccount {
    let account = this.#accounts.get(prefillWorkerId);
    if (account === undefined) {
      account = new LinkAccount(this.#protocol === 'tcp');
      this.#accounts.set(prefillWorkerId, account);
    }
    return account;
  }

  #figuresOf(prefillWorkerId: string, account: LinkAccount): LinkFigures {
    const { bytesPerMs, source } = account.rate();
    const figures: LinkFigures = {
      prefillWorkerId,
      decodeWorkerId: this.#decodeWorkerId,
      transferProtocol: this.#protocol,
      transfers: account.transfers,
      failures: account.failures,
      bytesTotal: account.bytesTotal,
      busyMsTotal: account.busyMsTotal,
      bytesPerMs,
      latencyMs: account.latencyMs,
      source,
      isProven: account.isProven,
    };
    if (account.lastFailure !== undefined) figures.lastFailure = account.lastFailure;
    return figures;
  }
}
