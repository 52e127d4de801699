import { constants } from 'node:os';
import type { Logger } from '@busbar/telemetry';

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;
const SIGNAL_EXIT_BASE = 128;
const EXIT_FAILED = 1;

/** That this process should end, and why. */
export interface StopDemand {
  /** Fires once. */
  readonly signal: AbortSignal;
  /** Fires at a second signal: running requests get their error now. */
  readonly hurry: AbortSignal;
  /** The connection to the bus is lost for good; asks for a stop unless that was asked already. */
  onBusLost(): void;
  /** What to exit with when everything was stopped in good order. */
  readonly exitCode: number;
}

/** As the first process of a container there is no default action: a start that hangs could not be ended otherwise. */
function exitAtOnce(signal: NodeJS.Signals): void {
  process.exit(SIGNAL_EXIT_BASE + constants.signals[signal]);
}

/** Until `listenForStop`: nothing is held yet, so a signal ends the process. */
export function exitOnSignals(): void {
  for (const signal of SIGNALS) process.on(signal, exitAtOnce);
}

/** From now on the first signal asks for a stop; a second signal ends the drain, a third the process. */
export function listenForStop(log: Logger): StopDemand {
  const controller = new AbortController();
  const impatience = new AbortController();
  let exitCode = 0;
  const ask = (why: string, code: number): void => {
    exitCode = code;
    log.info({}, why);
    controller.abort(new Error(why));
  };
  for (const signal of SIGNALS) {
    process.off(signal, exitAtOnce);
    process.on(signal, () => {
      if (impatience.signal.aborted) exitAtOnce(signal);
      if (controller.signal.aborted) {
        log.info({}, `${signal} again: not waiting for running requests`);
        impatience.abort();
      } else ask(`${signal}: draining`, 0);
    });
  }
  return {
    signal: controller.signal,
    hurry: impatience.signal,
    onBusLost: () => {
      if (!controller.signal.aborted) ask('the connection to NATS is lost for good', EXIT_FAILED);
    },
    get exitCode() {
      return exitCode;
    },
  };
}
