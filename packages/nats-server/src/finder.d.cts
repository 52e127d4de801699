export interface NatsServerBinary {
  /** Absolute path of the executable. */
  path: string;
  /** `major.minor.patch`. */
  version: string;
  /** On PATH, fetched earlier, or fetched just now. */
  source: 'path' | 'cache' | 'installed';
}

export interface FindOptions {
  /** Defaults to the environment of the process: PATH, XDG_CACHE_HOME, LOCALAPPDATA are read. */
  env?: Record<string, string | undefined>;
}

export interface EnsureOptions extends FindOptions {
  /** Gets one line for each phase that takes time. */
  log?: (line: string) => void;
}

export declare class NatsServerError extends Error {
  readonly code: 'NATS_SERVER_MISSING';
}

/** The first usable nats-server on PATH, else the one fetched earlier, else undefined. */
export declare function findNatsServer(
  options?: FindOptions,
): Promise<NatsServerBinary | undefined>;

/** Finds one or fetches the pinned release. Rejects with NatsServerError when neither works. */
export declare function ensureNatsServer(options?: EnsureOptions): Promise<NatsServerBinary>;
