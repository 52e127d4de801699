import { messageOf } from '@busbar/base';
import { type Bus, connectNats } from '@busbar/bus';
import type { Logger } from '@busbar/telemetry';

const QUIET_MS = 1_000;

/** The bus that production processes use. Errors of subscription handlers are logged, at most one a second for each place. */
export function connectTo(url: string, name: string, log: Logger): Promise<Bus> {
  const toldAt = new Map<string, number>();
  let unheard = 0;
  return connectNats({
    url,
    name,
    onError: (error, where) => {
      const now = performance.now();
      if (now - (toldAt.get(where) ?? -QUIET_MS) < QUIET_MS) {
        unheard++;
        return;
      }
      toldAt.set(where, now);
      log.error({ where, reason: messageOf(error), err: error, unheard }, 'a bus handler failed');
      unheard = 0;
    },
  });
}
