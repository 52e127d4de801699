import type { Outcome } from '@busbar/protocol';
import { LateHistogram } from '@busbar/telemetry';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

const TTFT_SECONDS = [0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 30, 60];
const ITL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 1, 5];
const PREFILL_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.6, 1.2, 2.5, 5, 10, 30, 60];
const E2E_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/**
 * What became of a split: a decode worker `fetched` the KV; it computed the prompt itself (`local`); the request `moved` to
 * another placement without the KV, `failed`, or was `cancelled` before it showed a token.
 */
export type SplitOutcome = 'fetched' | 'local' | 'moved' | 'failed' | 'cancelled';

/** What is measured of requests whose prompt goes to another worker first. */
interface SplitMetrics {
  splitEnded(outcome: SplitOutcome): void;
  /** A split was given up and its prompt computed by the worker that decodes. */
  splitFallback(reason: string): void;
  /** KV that one decode worker had refused was offered to another one. */
  splitReused(): void;
  /** From decision to staged KV. */
  prefillLeg(seconds: number): void;
}

/** What came too late, not at all, or was dropped for a bound. */
interface LossMetrics {
  lostBatches(count: number): void;
  strayDeltas(count: number): void;
  lifeDropped(count: number): void;
  cancelsForgotten(count: number): void;
}

/** What the frontend measures. Everything per token is a plain number that is read when the metrics are scraped. */
export interface FrontendMetrics extends SplitMetrics, LossMetrics {
  requestEnded(outcome: Outcome, seconds: number): void;
  firstToken(seconds: number): void;
  /** Gap between two deltas of a stream, one stream for each batch. */
  gap(seconds: number): void;
  promptTokens(count: number, cached: number): void;
  outputTokens(count: number): void;
  badFrame(subject: string): void;
  retry(reason: string): void;
}

export function createFrontendMetrics(
  registry: Registry,
  inFlight: () => number,
  streams: () => number,
): FrontendMetrics {
  const registers = [registry];
  const histogram = (name: string, help: string, buckets: number[]): LateHistogram =>
    new LateHistogram({ name: `busbar_frontend_${name}`, help, buckets, registers });
  const counter = (name: string, help: string): ((count: number) => void) => {
    const metric = new Counter({ name: `busbar_frontend_${name}`, help, registers });
    return (count) => metric.inc(count);
  };
  const gauge = (name: string, help: string, read: () => number): Gauge =>
    new Gauge({
      name: `busbar_frontend_${name}`,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  const requests = new Counter({
    name: 'busbar_frontend_requests_total',
    help: 'Requests that ended, by outcome',
    labelNames: ['outcome'],
    registers,
  });
  const retries = new Counter({
    name: 'busbar_frontend_retries_total',
    help: 'Placements that were given up for another one, by reason',
    labelNames: ['reason'],
    registers,
  });
  const ttft = histogram('ttft_seconds', 'From request to first token', TTFT_SECONDS);
  const itl = histogram(
    'itl_seconds',
    'Between two deltas of a stream, one stream sampled for each batch',
    ITL_SECONDS,
  );
  const e2e = histogram('e2e_seconds', 'From request to end of answer', E2E_SECONDS);
  const prompt = counter('prompt_tokens_total', 'Prompt tokens of answered requests');
  const cached = counter('cached_tokens_total', 'Prompt tokens that engines found in their cache');
  gauge('in_flight', 'HTTP requests being answered', inFlight);
  gauge('streams', 'Streams on workers', streams);
  const badFrames = new Counter({
    name: 'busbar_frontend_bad_frames_total',
    help: 'Messages that do not follow the protocol, by subject',
    labelNames: ['subject'],
    registers,
  });
  return {
    requestEnded(outcome, seconds) {
      requests.inc({ outcome });
      e2e.observe(seconds);
    },
    firstToken: (seconds) => ttft.observe(seconds),
    gap: (seconds) => itl.observe(seconds),
    promptTokens(count, cachedCount) {
      prompt(count);
      cached(cachedCount);
    },
    outputTokens: counter('output_tokens_total', 'Tokens that workers generated'),
    badFrame: (subject) => badFrames.inc({ subject }),
    retry: (reason) => retries.inc({ reason }),
    ...splitMetrics(registry),
    ...lossMetrics(counter),
  };
}

function lossMetrics(
  counter: (name: string, help: string) => (count: number) => void,
): LossMetrics {
  return {
    lostBatches: counter('lost_batches_total', 'Token batches of workers that never arrived'),
    strayDeltas: counter('stray_deltas_total', 'Deltas of streams that had ended here'),
    lifeDropped: counter('life_events_dropped_total', 'Events for routers lost in a long outage'),
    cancelsForgotten: counter(
      'cancels_forgotten_total',
      'Cancels that are not said again after an outage of the bus because they are too many',
    ),
  };
}

function splitMetrics(registry: Registry): SplitMetrics {
  const registers = [registry];
  const splits = new Counter({
    name: 'busbar_frontend_split_requests_total',
    help: 'Decisions to prefill on another worker, by what became of them',
    labelNames: ['outcome'],
    registers,
  });
  const fallbacks = new Counter({
    name: 'busbar_frontend_split_fallbacks_total',
    help: 'Splits given up for a prefill on the worker that decodes, by reason',
    labelNames: ['reason'],
    registers,
  });
  const reuses = new Counter({
    name: 'busbar_frontend_split_reuses_total',
    help: 'KV that one decode worker had refused and another one was sent for',
    registers,
  });
  const leg = new Histogram({
    name: 'busbar_frontend_prefill_leg_seconds',
    help: 'From a split decision to KV that can be fetched',
    buckets: PREFILL_SECONDS,
    registers,
  });
  return {
    splitEnded: (outcome) => splits.inc({ outcome }),
    splitFallback: (reason) => fallbacks.inc({ reason }),
    splitReused: () => reuses.inc(),
    prefillLeg: (seconds) => leg.observe(seconds),
  };
}
