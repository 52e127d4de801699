import type { Clock } from '@busbar/base';
import type { TransferProtocol, WorkerInfo } from '@busbar/protocol';

/** What counts when nothing is said. Weights of large models are read from slow disks for many minutes. */
export const VLLM_DEFAULTS = { command: 'vllm', startSeconds: 1_800, stopGraceMs: 10_000 } as const;

/** Start `vllm serve` as a child that never outlives this process. */
export interface VllmSpawn {
  kind: 'spawn';
  /** The executable, or it and arguments that come before `serve`; a name is looked for in PATH. */
  command: readonly string[];
  /** Folder or name of the model on the hub: the first argument of `vllm serve`. */
  modelPath: string;
  host: string;
  /** 0 takes a free one. */
  port: number;
  /** Further arguments; one of these wins over what is set here otherwise. */
  args: readonly string[];
  /** Whole environment of the child; VLLM_* that Busbar needs are added where they are missing. */
  env: Readonly<Record<string, string | undefined>>;
}

/** Use a vLLM that somebody else started and will stop. */
export interface VllmAttach {
  kind: 'attach';
  /** `http://host:port` */
  url: string;
  apiKey?: string;
  /**
   * Addresses of KV events when the engine does not tell them itself (`/kv_event_sources`, from vLLM 0.31). Absent, and not told:
   * the worker runs without KV events.
   */
  kvEventEndpoints?: readonly { endpoint: string; replayEndpoint?: string }[];
}

/** How the engine exchanges KV. For a child this becomes `--kv-transfer-config`; of an attached engine it must be true. */
export interface VllmTransfer {
  protocol: Exclude<TransferProtocol, 'tcp'>;
  /** Address under which other hosts reach this engine's side channel. */
  host: string;
  /** Port of NIXL's side channel or Mooncake's bootstrap server; spaced by the number of ranks on one host. 0 takes a free one. */
  port: number;
  /** Memory that transfers are made from and to. */
  bufferDevice: 'cuda' | 'cpu';
  /** How long the engine itself keeps KV that nobody fetches: `kv_lease_duration`. Must be above the limit `stagedKvMs`. */
  leaseMs: number;
  /** Name of an attached engine among those that exchange KV; Mooncake needs it. A child gets one. */
  engineId?: string;
  /** Further `kv_connector_extra_config`. */
  extraConfig?: Readonly<Record<string, unknown>>;
}

/** What a start goes through, in this order; an attached engine begins with `loading`. */
export const VLLM_PHASES = ['process', 'loading', 'health', 'model', 'ready'] as const;
export type VllmPhase = (typeof VLLM_PHASES)[number];

export interface VllmProgress {
  phase: VllmPhase;
  /** Since the start began. */
  elapsedMs: number;
  /** A sentence for a person: the pid, the shard that is loaded, the KV capacity in tokens. */
  detail: string;
}

export interface VllmEngineOptions {
  role: WorkerInfo['role'];
  /** Name under which Busbar serves the model; a child is told to serve under it too. Absent: the engine's own name. */
  model?: string;
  engine: VllmSpawn | VllmAttach;
  /** False: a child is started without KV events, and those of an attached engine are not read. */
  kvEvents: boolean;
  /** Tokens of one KV block; a child is told, of an attached engine it is checked. Absent: the engine's choice. */
  blockSize?: number;
  /** Longest context; a child is told. Absent: the engine's choice. */
  contextTokens?: number;
  transfer?: VllmTransfer;
  /** KV of one token over all layers, where the model's config.json does not tell it. */
  kvBytesPerToken?: number;
  clock: Clock;
  /** The start's visible phases. */
  onProgress?(progress: VllmProgress): void;
  /** Something is odd and the engine goes on: a version outside the known range, no KV events, no cached token counts. */
  onWarning?(message: string): void;
  /** Lines that the child wrote, for the log. */
  onLog?(line: string): void;
  /** Limit of the start. Default 30 minutes: large models are read from network disks. */
  startTimeoutMs?: number;
  /**
   * No token of any stream for so long fails what runs; no further token of a stream fails that one, and no first token for twice as
   * long one that later requests have overtaken. Default: the limit `streamSilenceMs`.
   */
  silenceMs?: number;
  /** A fetch of KV that has brought no token for so long is given up. Default: the limit `kvFetchMs`. */
  fetchMs?: number;
  /** From SIGTERM to SIGKILL. Default 10 s. */
  stopGraceMs?: number;
}
