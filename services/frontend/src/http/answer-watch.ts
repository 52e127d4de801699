import type { ServerResponse } from 'node:http';

/** Looks at each answer so often within the stall time. */
const LOOKS = 4;

/** Follows answers until their last byte has left this process, which is later than their end when a client reads slowly. */
export class AnswerWatch {
  readonly #open = new Set<ServerResponse>();
  /** Those whose clients are behind. */
  readonly #behind = new Set<ServerResponse>();
  readonly #stallMs: number;
  readonly #timer: NodeJS.Timeout;

  constructor(stallMs: number) {
    this.#stallMs = stallMs;
    this.#timer = setInterval(() => this.#look(), Math.ceil(stallMs / LOOKS)).unref();
  }

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** True while an answer has ended but some of its bytes still wait for its reader. */
  get hasUnread(): boolean {
    for (const response of this.#open) {
      if (response.writableEnded && !response.writableFinished) return true;
    }
    return false;
  }

  /** A client that takes nothing of what waits for it within the stall time, and at most a quarter more, is cut off. */
  add(response: ServerResponse): void {
    this.#open.add(response);
    // Of every answer, since a socket may go on to the next one with the time-out that the last one left.
    response.on('timeout', () => {
      if (waits(response)) response.socket?.destroy();
    });
    response.once('close', () => {
      this.#open.delete(response);
      this.#behind.delete(response);
    });
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Only sockets that are behind have a time-out: Node sets it anew at each write, which would be each token of each stream. */
  #look(): void {
    for (const response of this.#open) {
      const isBehind = waits(response);
      if (isBehind === this.#behind.has(response)) continue;
      if (isBehind) {
        this.#behind.add(response);
        response.setTimeout(this.#stallMs);
      } else {
        this.#behind.delete(response);
        response.setTimeout(0);
      }
    }
  }
}

/** Whether some of the answer waits for its client. */
function waits({ socket }: ServerResponse): boolean {
  return socket !== null && socket.writableLength > 0;
}
