import { createConnection, type Socket } from 'node:net';
import type { ConnectionOptions, NatsConnection } from '@nats-io/nats-core';
import { NatsConnectionImpl, setTransportFactory } from '@nats-io/nats-core/internal';
import { NodeTransport, nodeResolveHost } from '@nats-io/transport-node/lib/node_transport.js';

/** What the library's own reading asks of a socket at once, too. */
const READ_BYTES = 65_536;

type Chunk = IteratorResult<Uint8Array, undefined>;

/**
 * The library's transport without what a process pays at each wake-up: plain connections are read past Node's stream layer and
 * without an async generator, and writes ask for no word when they are through. Connecting, TLS and closing are the library's.
 */
class LeanTransport extends NodeTransport {
  #hears: ((chunk: Uint8Array) => void) | undefined;
  #waiting: ((chunk: Chunk) => void) | undefined;

  override dial({ hostname, port }: { hostname: string; port: number }): Promise<Socket> {
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    let problem: Error | undefined;
    const onread = {
      buffer: Buffer.allocUnsafe(READ_BYTES),
      callback: (bytes: number, buffer: Uint8Array): boolean => {
        // A copy, since messages are views of their chunk and the buffer takes the next one.
        const chunk = Buffer.from(buffer.subarray(0, bytes));
        if (this.#hears === undefined) socket.emit('data', chunk);
        else this.#hears(chunk);
        return true;
      },
    };
    const socket = createConnection({ host: hostname, port, noDelay: true, onread }, () => {
      socket.removeAllListeners();
      resolve(socket);
    });
    socket.on('error', (error) => {
      problem = error;
    });
    socket.on('close', () => {
      socket.removeAllListeners();
      reject(problem);
    });
    return promise;
  }

  override setupHandlers(): void {
    super.setupHandlers();
    if (this.isEncrypted()) return;
    this.#hears = (chunk) => {
      const waiting = this.#waiting;
      this.#waiting = undefined;
      if (waiting === undefined) this.yields.push(chunk);
      else waiting({ value: chunk, done: false });
    };
  }

  override iterate(): AsyncIterableIterator<Uint8Array> {
    if (this.isEncrypted()) return super.iterate();
    const chunks: AsyncIterableIterator<Uint8Array> = {
      next: () => this.#next(),
      [Symbol.asyncIterator]: () => chunks,
    };
    return chunks;
  }

  /** Errors show when the connection closes, or when the server's answers to pings stay away. */
  override send(frame: Uint8Array): void {
    if (!this.isClosed) this.socket?.write(frame);
  }

  #next(): Promise<Chunk> {
    const value = this.yields.shift();
    if (value !== undefined) return Promise.resolve({ value, done: false });
    if (this.isClosed) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => {
      this.#waiting = resolve;
    });
  }
}

/** As the library's function of this name, for URLs of `nats://` and `tls://`. */
export function connect(options: ConnectionOptions): Promise<NatsConnection> {
  setTransportFactory({ factory: () => new LeanTransport(), dnsResolveFn: nodeResolveHost });
  return NatsConnectionImpl.connect(options);
}
