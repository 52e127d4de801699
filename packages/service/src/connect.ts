import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '@busbar/base';
import { type Bus, BusError } from '@busbar/bus';
import type { Logger } from '@busbar/telemetry';
import { withoutCredentials } from './config.ts';
import { ServiceError } from './errors.ts';

/** Opens one connection to the bus, or rejects with BusError. */
export type ConnectBus = () => Promise<Bus>;

const RETRY_MS = 500;
const TELL_EVERY_MS = 2_000;
/** JetStream of a server that has just started needs a moment; one that was started without it never comes. */
const JETSTREAM_WAIT_MS = 2_000;

/**
 * Connects, and tries again for `waitMs` while the server cannot be reached or its JetStream is not up yet, with a visible line.
 * Rejects with SERVICE_BUS and the bus's own sentence of what to do.
 */
export async function connectWithRetry(
  connect: ConnectBus,
  options: { url: string; waitMs: number; log: Logger },
): Promise<Bus> {
  const url = String(withoutCredentials(options.url));
  const beganAt = performance.now();
  let toldAt = -Infinity;
  for (;;) {
    try {
      return await connect();
    } catch (error) {
      const now = performance.now();
      const deadline = beganAt + Math.min(options.waitMs, patienceMs(error));
      if (now + RETRY_MS > deadline) {
        throw new ServiceError('SERVICE_BUS', messageOf(error), { cause: error });
      }
      if (now - toldAt >= TELL_EVERY_MS) {
        toldAt = now;
        options.log.warn(
          { natsUrl: url, reason: messageOf(error) },
          `NATS is not ready; trying again for ${Math.ceil((deadline - now) / 1000)} s`,
        );
      }
      await sleep(RETRY_MS);
    }
  }
}

/** Logs when the connection breaks and when it is back, so that a log alone tells why a process answered nothing meanwhile. */
export function logBusChanges(bus: Bus, log: Logger): void {
  let lostAtMs = 0;
  bus.onStatus((change) => {
    if (change === 'disconnected') {
      lostAtMs = performance.now();
      log.warn({}, 'the connection to NATS is lost; trying again until it is back');
    } else if (change === 'reconnected') {
      const awayMs = Math.round(performance.now() - lostAtMs);
      log.info({ awayMs }, 'connected to NATS again');
    }
  });
}

/** How long an error of this kind is worth trying again. */
function patienceMs(error: unknown): number {
  if (!(error instanceof BusError)) return 0;
  if (error.code === 'BUS_NO_JETSTREAM') return JETSTREAM_WAIT_MS;
  return error.retryable ? Number.POSITIVE_INFINITY : 0;
}
