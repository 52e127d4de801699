import { ProtocolError } from '@busbar/protocol';
import type { Logger } from '@busbar/telemetry';
import type { LeaseProblemListener } from './lease-watch.ts';

/** Logs what goes wrong in a watch of leases; `count` hears of each value that cannot be read. */
export function leaseProblems(log: Logger, count: () => void): LeaseProblemListener {
  return (error, key) => {
    if (!(error instanceof ProtocolError)) {
      log.error({ err: error, key }, 'the news of a lease could not be taken');
      return;
    }
    count();
    log.warn({ key, reason: error.message.slice(0, 500) }, 'a lease cannot be read');
  };
}
