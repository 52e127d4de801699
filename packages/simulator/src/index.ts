export { checkRun } from './check.ts';
export { type CommandOutput, runSimulateCommand } from './command.ts';
export { type CompareOptions, compare, type RunOptions, runOnce, runWorkload } from './compare.ts';
export { SimulatorError, type SimulatorErrorCode } from './errors.ts';
export { EventHeap } from './event-heap.ts';
export { renderPolicyTable, shortfalls } from './policy-table.ts';
export type { RequestRecord } from './request-record.ts';
export { routerFactory } from './router-factory.ts';
export {
  type FrontendPorts,
  type FrontendRouter,
  type FrontendWorker,
  SimFrontend,
} from './sim-frontend.ts';
export type { KvPart } from './sim-worker.ts';
export { type SimulationOptions, type SimulationRun, simulate } from './simulation.ts';
export {
  type CompareSplitsOptions,
  compareSplits,
  LINK_LATENCY_MS,
  type SplitRun,
  type SplitSetup,
  splitSetup,
} from './split/compare-splits.ts';
export { type Crossover, findCrossover } from './split/crossover.ts';
export { type SplitSummary, summarizeSplits } from './split/split-summary.ts';
export { renderSplitMarkdown, renderSplitTable } from './split/split-table.ts';
export { type RunSummary, summarize } from './summary.ts';
export { renderTable } from './table.ts';
export { DEFAULT_TIMING, type Timing } from './timing.ts';
export { type FabricOptions } from './transfer/fabric.ts';
export { payloadBytesPerMs } from './transfer/sim-network.ts';
export type * from './workload.ts';
export { WORKLOADS } from './workloads/catalog.ts';
export { traceWorkload } from './workloads/mooncake.ts';
export { mooncakeShape } from './workloads/mooncake-shape.ts';
export { type MooncakeRecord, parseMooncakeTrace } from './workloads/mooncake-trace.ts';
export { SPLIT_WORKLOADS, wordsWorkload } from './workloads/words.ts';
