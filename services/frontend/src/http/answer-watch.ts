import type { ServerResponse } from 'node:http';

/** Follows answers until their last byte has left this process, which is later than their end when a client reads slowly. */
export class AnswerWatch {
  readonly #open = new Set<ServerResponse>();
  readonly #stallMs: number;

  constructor(stallMs: number) {
    this.#stallMs = stallMs;
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

  /** A client that takes nothing of what waits for it within the stall time is cut off. */
  add(response: ServerResponse): void {
    this.#open.add(response);
    response.once('close', () => this.#open.delete(response));
    response.setTimeout(this.#stallMs, () => {
      const { socket } = response;
      if (socket !== null && socket.writableLength > 0) socket.destroy();
    });
  }
}
