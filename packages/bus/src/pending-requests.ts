import { BusError } from './errors.ts';
import type { BusMessage, RequestOptions } from './port.ts';

interface Pending {
  subject: string;
  resolve: (message: BusMessage) => void;
  reject: (error: BusError) => void;
  timer: NodeJS.Timeout;
  signal: AbortSignal | undefined;
  onAbort: () => void;
}

/** Requests that wait for their answer. Each ends exactly once: answer, time-out, abort, no responders or break. */
export class PendingRequests {
  readonly #pending = new Map<string, Pending>();
  #next = 0;

  /** Registers a request and calls `send` with the token under which its answer will be `resolve`d. */
  start(
    subject: string,
    options: RequestOptions,
    send: (token: string) => void,
  ): Promise<BusMessage> {
    const { signal, timeoutMs } = options;
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
      this.#pending.set(token, { subject, resolve, reject, timer, signal, onAbort });
      signal?.addEventListener('abort', onAbort, { once: true });
      try {
        send(token);
      } catch (error) {
        this.#take(token);
        reject(error);
      }
    });
  }

  /** Answers that come too late are dropped. */
  resolve(token: string, message: BusMessage): void {
    this.#take(token)?.resolve(message);
  }

  reject(token: string, error: BusError): void {
    this.#take(token)?.reject(error);
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
