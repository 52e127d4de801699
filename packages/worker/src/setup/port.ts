import type { Engine } from '@busbar/engine';
import type { ModelCard, WorkerInfo } from '@busbar/protocol';

/** Variables of this process, as `main.ts` has them. */
export type Env = Readonly<Record<string, string | undefined>>;

/** An engine that is not started yet, and what a worker must know of it besides the port. */
export interface EngineSetup {
  engine: Engine;
  /** The card of its model, once it runs. */
  describe(info: WorkerInfo): Promise<ModelCard>;
  /** How long it may take to stop, in ms. */
  stopMs: number;
  /** True: the engine serves KV, but nothing in it answers probes of the link. */
  needsProbeServer: boolean;
}
