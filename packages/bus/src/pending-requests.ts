import { BusError } from './errors.ts';
import type { BusHandler, BusMessage, RequestOptions } from './port.ts';

/** Requests that were given up and whose answer still matters; the oldest is forgotten first, and counted. */
const MAX_LATE = 1_024;

interface Pending {
  subject: string;
  resolve: (message: BusMessage) => void;
  reject: (error: BusError) => void;
  timer: NodeJS.Timeout;
  signal: AbortSignal | undefined;
  onAbort: () => void;
  onLate: BusHandler | undefined;
}

/** Requests that wait for their answer. Each ends exactly once: answer, time-out, abort, no responders or break. */
export class PendingRequests {
  readonly #pending = new Map<string, Pending>();
  readonly #late = new Map<string, BusHandler>();
  #next = 0;
  #forgotten = 0;

  /** Requests that were given up and whose answer, should it come, nobody is told of any more. */
  get forgotten(): number {
    return this.#forgotten;
  }

  /** Registers a request and calls `send` with the token under which its answer will be `resolve`d. */
  start(
    subject: string,
    options: RequestOptions,
    send: (token: string) => void,
  ): Promise<BusMessage> {
    const { signal, timeoutMs, onLate } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(aborted(subject));
        return;
      }
      const token = (this.#next++).toString(36);
      const onAbort = (): void => this.reject(token, aborted(subject));
      const onTimeout = (): void =>
        this.reject(
          token,
          new BusError('BUS_TIMEOUT', `no answer on ${subject} within ${timeoutMs} ms`),
        );
      const timer = setTimeout(onTimeout, timeoutMs);
      this.#pending.set(token, { subject, resolve, reject, timer, signal, onAbort, onLate });
      signal?.addEventListener('abort', onAbort, { once: true });
      try {
        send(token);
      } catch (error) {
        this.#take(token);
        reject(error);
      }
    });
  }

  /** Answers that come too late are dropped, unless somebody wants them: then what to call is returned. */
  resolve(token: string, message: BusMessage): BusHandler | undefined {
    const pending = this.#take(token);
    pending?.resolve(message);
    const onLate = this.#late.get(token);
    this.#late.delete(token);
    return onLate;
  }

  reject(token: string, error: BusError): void {
    const pending = this.#take(token);
    if (pending === undefined) return;
    pending.reject(error);
    if (pending.onLate === undefined) return;
    this.#late.set(token, pending.onLate);
    if (this.#late.size <= MAX_LATE) return;
    for (const oldest of this.#late.keys()) {
      this.#late.delete(oldest);
      this.#forgotten++;
      return;
    }
  }

  rejectNoResponders(token: string): void {
    const pending = this.#take(token);
    pending?.reject(new BusError('BUS_NO_RESPONDERS', `nobody subscribes to ${pending.subject}`));
  }

  rejectAll(error: (what: string) => BusError): void {
    for (const [token, { subject }] of this.#pending) {
      this.reject(token, error(`request on ${subject}`));
    }
  }

  #take(token: string): Pending | undefined {
    const pending = this.#pending.get(token);
    if (pending === undefined) return undefined;
    this.#pending.delete(token);
    clearTimeout(pending.timer);
    pending.signal?.removeEventListener('abort', pending.onAbort);
    return pending;
  }
}

function aborted(subject: string): BusError {
  return new BusError('BUS_ABORTED', `request on ${subject} was aborted`);
}
