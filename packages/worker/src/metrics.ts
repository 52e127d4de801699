import type { EngineDelta, EngineLoad, FetchReport, StagedEnd } from '@busbar/engine';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Metrics of a worker, each bound once so that the step path only adds numbers. */
export interface WorkerMetrics {
  ended: (finish: EngineDelta['finish']) => void;
  refused: (code: string) => void;
  promptTokens: Counter;
  cachedTokens: Counter;
  outputTokens: Counter;
  steps: Counter;
  kvBatches: Counter;
  lostMessages: (kind: string) => void;
  badFrames: (subject: string) => void;
  stagedRequests: Gauge;
  stagedEnded: (how: StagedEnd) => void;
  fetched: (outcome: FetchReport['outcome'], bytes: number) => void;
  fetchSeconds: Histogram;
}

/** From a small prompt on a fast link to the limit of a fetch. */
const FETCH_SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120];

/** Registers `busbar_<role>_*`. `load` is asked at each scrape. */
export function createWorkerMetrics(
  registry: Registry,
  role: string,
  load: () => EngineLoad,
): WorkerMetrics {
  const registers = [registry];
  const counter = (name: string, help: string): Counter =>
    new Counter({ name: `busbar_${role}_${name}`, help, registers });
  const requests = new Counter({
    name: `busbar_${role}_requests_total`,
    help: 'Requests that this worker finished, by outcome',
    labelNames: ['outcome'],
    registers,
  });
  const refusals = new Counter({
    name: `busbar_${role}_refusals_total`,
    help: 'Requests that this worker did not take, by code',
    labelNames: ['code'],
    registers,
  });
  const lost = new Counter({
    name: `busbar_${role}_lost_messages_total`,
    help: 'Messages that the bus did not take, by kind',
    labelNames: ['kind'],
    registers,
  });
  const bad = new Counter({
    name: `busbar_${role}_bad_frames_total`,
    help: 'Messages that do not follow the protocol, by subject',
    labelNames: ['subject'],
    registers,
  });
  createGauges(registry, role, load);
  const completed = requests.labels('completed');
  const cancelled = requests.labels('cancelled');
  const failed = requests.labels('failed');
  return {
    ...createTransferMetrics(registry, role),
    ended: (finish) => {
      if (finish === 'error') failed.inc();
      else if (finish === 'cancelled') cancelled.inc();
      else completed.inc();
    },
    refused: (code) => refusals.labels(code).inc(),
    promptTokens: counter('prompt_tokens_total', 'Prompt tokens of accepted requests'),
    cachedTokens: counter('cached_tokens_total', 'Prompt tokens that were found in the KV cache'),
    outputTokens: counter('output_tokens_total', 'Tokens that were generated'),
    steps: counter('steps_total', 'Engine steps that produced something'),
    kvBatches: counter('kv_batches_total', 'Batches of KV events that were sent'),
    lostMessages: (kind) => lost.labels(kind).inc(),
    badFrames: (subject) => bad.labels(subject).inc(),
  };
}

type TransferMetrics = Pick<
  WorkerMetrics,
  'stagedRequests' | 'stagedEnded' | 'fetched' | 'fetchSeconds'
>;

function createTransferMetrics(registry: Registry, role: string): TransferMetrics {
  const registers = [registry];
  const stagedEnds = new Counter({
    name: `busbar_${role}_staged_ends_total`,
    help: 'Requests whose KV waited here and is gone, by how that came',
    labelNames: ['how'],
    registers,
  });
  const fetches = new Counter({
    name: `busbar_${role}_kv_fetches_total`,
    help: 'Fetches of KV from prefill workers, by outcome; one that was told to wait counts as busy before its end',
    labelNames: ['outcome'],
    registers,
  });
  const fetchBytes = new Counter({
    name: `busbar_${role}_kv_fetch_bytes_total`,
    help: 'Bytes of KV that came from prefill workers',
    registers,
  });
  return {
    stagedRequests: new Gauge({
      name: `busbar_${role}_staged_requests`,
      help: 'Requests whose KV waits to be fetched',
      registers,
    }),
    stagedEnded: (how) => stagedEnds.labels(how).inc(),
    fetched: (outcome, bytes) => {
      fetches.labels(outcome).inc();
      fetchBytes.inc(bytes);
    },
    fetchSeconds: new Histogram({
      name: `busbar_${role}_kv_fetch_seconds`,
      help: 'Time from the begin to the end of a fetch of KV',
      buckets: FETCH_SECONDS,
      registers,
    }),
  };
}

function createGauges(registry: Registry, role: string, load: () => EngineLoad): void {
  const gauge = (name: string, help: string, read: (load: EngineLoad) => number): void => {
    const made = new Gauge({
      name: `busbar_${role}_${name}`,
      help,
      registers: [],
      collect() {
        this.set(read(load()));
      },
    });
    registry.registerMetric(made);
  };
  gauge('running_requests', 'Requests in the batch', (now) => now.running);
  gauge('waiting_requests', 'Requests that wait for a place', (now) => now.waiting);
  gauge(
    'waiting_prefill_tokens',
    'Prompt tokens not prefilled yet',
    (now) => now.waitingPrefillTokens,
  );
  gauge('free_blocks', 'Blocks that hold nothing reusable', (now) => now.freeBlocks);
  gauge('active_blocks', 'Blocks of running requests', (now) => now.activeBlocks);
  gauge('staged_blocks', 'Blocks that wait to be fetched', (now) => now.stagedBlocks);
  gauge('stored_blocks', 'Blocks made reusable since the start', (now) => now.storedBlocksTotal);
  gauge('step_ms', 'Mean duration of a decode step lately', (now) => now.decodeStepMs);
}
