export type { LinkProbe } from '@busbar/links';

/** Where a server of transfers listens. Port 0 takes a free one. */
export interface TransferAddress {
  host: string;
  port: number;
  /** Name under which others reach it, where `host` is an address of all interfaces; absent takes `host`. */
  advertisedHost?: string;
}

export interface ProbeOptions {
  /** Bytes to ask for, at most `MAX_PROBE_BYTES`. */
  bytes: number;
  /** Limit of the whole probe. */
  timeoutMs: number;
}

/** The staged prompts of an engine, as the server of transfers sees them. */
export interface StagedSource {
  /** Begins a fetch, or answers in a sentence why there is none. */
  open(transferId: string): StagedFetch | string;
}

/** One prompt that is being fetched. */
export interface StagedFetch {
  /** Two words for each block, full or not, in order. */
  hashes: Uint32Array;
  blockBytes: number;
  /** Called once: `received` when the other side confirmed all of it, otherwise `broken`. */
  end(outcome: 'received' | 'broken'): void;
  /** Called when the staged blocks go while they are being sent; the connection ends at once. */
  onGone(close: () => void): void;
}

/** Answers bandwidth probes, and fetches of what its source has staged. */
export interface TransferServer {
  /** `host:port` for others. */
  readonly endpoint: string;
  /** Closes the port and every connection. */
  close(): Promise<void>;
}

export interface TransferServerOptions extends TransferAddress {
  /** Absent: the server answers probes only. */
  staged?: StagedSource;
  /** Prompts that are sent at once; other fetches wait for their turn. Absent takes 64. */
  maxSends?: number;
  /** Connections that are served or wait; the others hear `busy`. Absent takes what 64 decode workers fetch at once. */
  maxConnections?: number;
}
