import type { Socket } from 'node:net';
import { noiseSlice } from './block-content.ts';

/** After so many bytes that the system took at once, other work of this process gets its turn. */
const TURN_BYTES = 1_048_576;

/** Writes pieces as fast as the other side takes them, without copying them and without holding the event loop. */
export class PieceWriter {
  readonly #socket: Socket;
  #sinceTurn = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Resolves when the socket wants more. Rejects when it is closed. */
  async write(pieces: readonly Uint8Array[]): Promise<void> {
    const socket = this.#socket;
    if (socket.destroyed) throw new Error('the connection is closed');
    let wantsMore = true;
    socket.cork();
    for (const piece of pieces) {
      wantsMore = socket.write(piece);
      this.#sinceTurn += piece.length;
    }
    socket.uncork();
    if (!wantsMore && socket.writableNeedDrain) await drained(socket);
    else if (this.#sinceTurn >= TURN_BYTES) await new Promise((resolve) => setImmediate(resolve));
    else return;
    this.#sinceTurn = 0;
  }

  async noise(bytes: number): Promise<void> {
    for (let rest = bytes; rest > 0; ) {
      const piece = noiseSlice(rest);
      await this.write([piece]);
      rest -= piece.length;
    }
  }
}

function drained(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      socket.off('drain', settle);
      socket.off('close', settle);
      if (socket.destroyed) reject(new Error('the connection is closed'));
      else resolve();
    };
    socket.on('drain', settle);
    socket.on('close', settle);
  });
}
