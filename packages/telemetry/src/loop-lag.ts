import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Gauge, type Registry } from 'prom-client';

/** Coarse on purpose: each sample wakes an idle process. */
const SAMPLE_MS = 500;
/** The longest that a timer takes: prom-client's own samples of the loop, which nobody reads, wake nobody. */
export const NO_SAMPLES_MS = 2 ** 31 - 1;

type Figure = 'min' | 'max' | 'mean' | 'stddev' | 'p50' | 'p90' | 'p99';
const FIGURES: readonly Figure[] = ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'];

/**
 * Puts `nodejs_eventloop_lag_*_seconds` in the place of prom-client's: how much later than due a timer came, since the last
 * scrape. Node records the time between two samples, so that the samples' own distance, which prom-client leaves in, is taken
 * off here: a loop that is never late has 0.
 */
export function observeLoopLag(registry: Registry): void {
  const histogram = monitorEventLoopDelay({ resolution: SAMPLE_MS });
  histogram.enable();
  const late = (intervalNs: number): number => Math.max(0, intervalNs / 1e9 - SAMPLE_MS / 1e3);
  const read: Record<Figure, () => number> = {
    min: () => late(histogram.min),
    max: () => late(histogram.max),
    mean: () => late(histogram.mean),
    stddev: () => histogram.stddev / 1e9,
    p50: () => late(histogram.percentile(50)),
    p90: () => late(histogram.percentile(90)),
    p99: () => late(histogram.percentile(99)),
  };
  for (const figure of FIGURES) {
    const name = `nodejs_eventloop_lag_${figure}_seconds`;
    registry.removeSingleMetric(name);
    const gauge: Gauge = new Gauge({
      name,
      help: `How late timers of the event loop were since the last scrape, ${figure}.`,
      registers: [registry],
      collect: () => {
        gauge.set(histogram.count === 0 ? 0 : read[figure]());
        if (figure === FIGURES.at(-1)) histogram.reset();
      },
    });
  }
}
