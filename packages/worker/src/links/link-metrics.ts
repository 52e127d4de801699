import type { LinkFigures } from '@busbar/links';
import { Counter, Gauge, type Registry } from 'prom-client';

const LABELS = ['prefill'];

/** Registers `busbar_decode_link_*`: what the accounts say at each scrape. The links of workers that left are not among them. */
export function createLinkMetrics(registry: Registry, read: () => readonly LinkFigures[]): void {
  const register = (
    Kind: typeof Counter | typeof Gauge,
    name: string,
    help: string,
    value: (link: LinkFigures) => number,
  ): void => {
    const metric = new Kind({
      name: `busbar_decode_link_${name}`,
      help,
      labelNames: LABELS,
      registers: [],
      collect() {
        this.reset();
        for (const link of read()) this.labels(link.prefillWorkerId).inc(value(link));
      },
    });
    registry.registerMetric(metric);
  };
  register(
    Counter,
    'transfers_total',
    'Transfers of KV that arrived, by prefill worker',
    (link) => link.transfers,
  );
  register(
    Counter,
    'failures_total',
    'Transfers of KV that failed, by prefill worker',
    (link) => link.failures,
  );
  register(
    Counter,
    'bytes_total',
    'Bytes of KV that came, by prefill worker',
    (link) => link.bytesTotal,
  );
  register(
    Counter,
    'busy_seconds_total',
    'Time in which at least one transfer ran, by prefill worker',
    (link) => link.busyMsTotal / 1_000,
  );
  register(
    Gauge,
    'bytes_per_second',
    'Throughput of the link lately, by prefill worker',
    (link) => link.bytesPerMs * 1_000,
  );
  register(
    Gauge,
    'latency_seconds',
    'Time of a transfer besides its bytes lately, by prefill worker',
    (link) => link.latencyMs / 1_000,
  );
}
