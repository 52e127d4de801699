import type { HostFinding } from '@busbar/engine';
import type { LinkRecord } from '@busbar/protocol';
import type { ReadinessBody, RouterLink, RouterWorker } from '../clients/admin-pages.ts';
import type { Cluster } from '../clients/cluster.ts';
import type { NatsInfo } from '../nats/info.ts';
import type { StackView } from '../stack/stack-view.ts';

/** The same prompt sent twice or more through a frontend. */
export interface Probe {
  promptTokens: number;
  /** Cached tokens that each answer reported; the first was sent to a cold cache. */
  cachedTokens: number[];
  /** Time to the first token of each, at this client. */
  ttftMs: number[];
}

/** What an engine that is started on this machine would meet. */
export interface HostView {
  findings: readonly HostFinding[];
  /** A model was named, so that its download locks could be looked for. */
  hasModel: boolean;
  /** CUDA of the engine and of the driver, in words; absent when no engine was named or found. */
  build?: string;
  /** What is wrong with the command of vLLM; `isRefused` when a worker would not start it. */
  command?: { problem: string; isRefused: boolean };
}

/** Everything that the checks look at, gathered once. Judging it is pure. */
export interface Facts {
  namespace: string;
  natsUrl: string;
  policy: string | undefined;
  /** As `busbar up` was told; undefined for stacks that were started otherwise. */
  disaggregation: { mode: string; isStrict: boolean } | undefined;
  nats: NatsInfo | { error: string };
  stack: StackView;
  /** Undefined when the bus cannot be used. Loads are from before the probe. */
  cluster: Cluster | undefined;
  /** By process id; `undefined` as a value when the admin port did not answer. */
  readiness: ReadonlyMap<string, ReadinessBody | undefined>;
  /** By router id. */
  routerWorkers: ReadonlyMap<string, readonly RouterWorker[]>;
  /** By router id. */
  routerLinks: ReadonlyMap<string, readonly RouterLink[]>;
  /** HTTP API that was asked; undefined when none is known. */
  probeUrl: string | undefined;
  /** `tooLong` when the API answered that the prompt does not fit into its model's context. */
  probe: Probe | { error: string } | { tooLong: string } | undefined;
  /** KV batches that were heard on the bus during the probe, by worker. */
  heardBatches: ReadonlyMap<string, number>;
  /** `storedBlocksTotal` of each worker after the probe. */
  storedAfter: ReadonlyMap<string, number>;
  /** What decode workers measured of the ways into them. */
  links: readonly LinkRecord[];
  /** Undefined when it could not be looked at. */
  host: HostView | undefined;
  openFilesMax: number | undefined;
  /** What took so long that it was given up. */
  givenUp: readonly string[];
}
