import type { Tier } from '@busbar/protocol';
import type { EngineSink } from '../../port.ts';

/** Where one data-parallel rank of a vLLM publishes its KV events, and answers replays: ZMQ endpoints. */
export interface KvEventSource {
  dpRank: number;
  endpoint: string;
  /**
   * The engine runs, and it is not known which of the two it does with its endpoint, bind or connect: we bind if that is still possible.
   */
  tryBind?: true;
  /** Absent: what is missed cannot be asked for again, and a gap drops all knowledge of the rank. */
  replayEndpoint?: string;
}

export interface KvEventsOptions {
  sink: Pick<EngineSink, 'onKv' | 'onCacheReset'>;
  /**
   * `listen`: for a vLLM that we start; `open` says the flag's value, and rank r publishes to endpoint port + r. `attach`: for one
   * that runs.
   */
  from: { kind: 'listen'; dpRanks: number } | { kind: 'attach'; sources: readonly KvEventSource[] };
  /** Prefix of the topics to hear, "" for all; a child is told to use it. */
  topic: string;
  /** Something was wrong or lost; a sentence for the log. Called at most once a second for each kind and rank. */
  onProblem(problem: KvEventsProblem): void;
}

export interface KvEventsProblem {
  kind: KvEventsProblemKind;
  dpRank: number;
  message: string;
  /** Problems of this kind and rank so far, this one included. */
  count: number;
}

export type KvEventsProblemKind =
  /** A frame that is no batch of events. */
  | 'bad-frame'
  /** Sequence numbers are missing; a replay was asked for. */
  | 'gap'
  /** Blocks whose parent is unknown. */
  | 'orphan'
  /** A replay was impossible, came too late or was not enough: the rank begins anew with what comes. */
  | 'lost'
  /** The sequence began again: a new engine process. */
  | 'restart'
  /** Events name another block size than the one announced to routers; they are not used. */
  | 'block-size';

/** The value of `--kv-events-config` for a child. */
export interface KvEventsConfig {
  enable_kv_cache_events: true;
  publisher: 'zmq';
  endpoint: string;
  replay_endpoint: string;
  topic: string;
  buffer_steps: number;
}

/** Counts since `open`, except where it says "now". */
export interface KvEventsStatistics {
  batches: number;
  storedBlocks: number;
  removedBlocks: number;
  clears: number;
  badFrames: number;
  gaps: number;
  replays: number;
  replayedBatches: number;
  /** Times that a rank's knowledge was dropped because events could not be had. */
  losses: number;
  restarts: number;
  orphanBlocks: number;
  /** Events of cache groups, adapters or inputs that a prefix of token ids cannot name. */
  ignoredEvents: number;
  /** Blocks known now, over all ranks and tiers. */
  blocks: number;
}

/**
 * Hears the KV events of one vLLM and tells them to the sink in our own chained hashes. The sink is not called after `close` was.
 */
export interface KvEvents {
  /**
   * Opens the sockets. For `listen` the result goes to the child as `--kv-events-config`, and must be called before the child
   * starts, so that nothing is lost. For `attach` there is no result.
   */
  open(): Promise<KvEventsConfig | undefined>;
  /**
   * The block size that routers were told: events of another are refused from now on, and told as `block-size`. `kvBlocks`: how many a rank
   * has, so that events which tell blocks again show as more than there are.
   */
  expectBlocks(blockSize: number, kvBlocks?: number): void;
  /** The engine's process is gone: its blocks are, too, and sequence numbers begin again. The sink hears `onCacheReset`. */
  engineGone(): void;
  /** Known blocks of each rank and tier, parents before children; for `Engine.blocks`. */
  blocks(): { dpRank: number; tier: Tier; hashes: Uint32Array }[];
  statistics(): KvEventsStatistics;
  close(): Promise<void>;
}
