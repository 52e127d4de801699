import type { Bus } from '@busbar/bus';

/**
 * An outage of the bus is noticed some seconds after its beginning, and others come back at their own times: what was said around it
 * is said again so long after the return.
 */
const REPEAT_AFTER_MS = [0, 1_000, 5_000];

export interface Repeater {
  /** The bus is away. */
  hold(): void;
  /** Says again what may not have been heard. */
  repeat(): void;
  /** That was the last time. */
  release(): void;
}

/** Has things said again after an outage of the bus. Returns how to stop it. */
export function repeatAfterOutages(bus: Bus, repeater: Repeater): () => void {
  let timers: NodeJS.Timeout[] = [];
  const stopTimers = (): void => {
    for (const timer of timers) clearTimeout(timer);
  };
  const stopStatus = bus.onStatus((status) => {
    stopTimers();
    if (status === 'disconnected') repeater.hold();
    if (status !== 'reconnected') return;
    timers = REPEAT_AFTER_MS.map((afterMs, at) =>
      setTimeout(() => {
        repeater.repeat();
        if (at === REPEAT_AFTER_MS.length - 1) repeater.release();
      }, afterMs).unref(),
    );
  });
  return () => {
    stopStatus();
    stopTimers();
  };
}
