import type { BusCounters } from '@busbar/bus';
import { Counter, type Registry } from 'prom-client';

const METRICS: readonly [name: string, help: string, value: (now: BusCounters) => number][] = [
  ['handler_errors', 'Handlers of messages that threw or rejected', (now) => now.handlerErrors],
  ['reconnects', 'Times that the connection came back', (now) => now.reconnects],
  [
    'refused_publishes',
    'Messages that did not fit into the buffer of an outage',
    (now) => now.refusedPublishes,
  ],
  ['watch_reopens', 'Watches that were opened again', (now) => now.watchReopens],
  [
    'forgotten_requests',
    'Requests given up whose late answer is not heard any more because too many were given up since',
    (now) => now.forgottenRequests,
  ],
];

/** Registers `busbar_bus_*_total`: what the process's connection to the bus has counted. `read` is asked at each scrape. */
export function createBusMetrics(registry: Registry, read: () => BusCounters): void {
  for (const [name, help, value] of METRICS) {
    const metric = new Counter({
      name: `busbar_bus_${name}_total`,
      help,
      registers: [],
      collect() {
        this.reset();
        this.inc(value(read()));
      },
    });
    registry.registerMetric(metric);
  }
}
