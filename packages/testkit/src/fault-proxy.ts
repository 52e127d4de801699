import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy on 127.0.0.1 that can misbehave as networks do. */
export interface FaultProxy {
  readonly port: number;
  /** Connections that are open now. */
  readonly connections: number;
  /** Holds every chunk back for `ms`, in both directions, in order. 0 ends it. */
  delay(ms: number): void;
  /** Closes all connections and refuses new ones until `heal`. */
  cut(): void;
  /** Takes bytes and loses them, in both directions, while connections stay open; new ones get no answer. */
  blackHole(): void;
  /** Stops reading on both sides, so that senders fill their buffers; nothing is lost. */
  pause(): void;
  /** Ends every fault. Connections that lost bytes are closed, since they would go on in the middle of a message. */
  heal(): void;
  close(): Promise<void>;
}

type Mode = 'pass' | 'cut' | 'black-hole' | 'pause';

class Link {
  readonly #near: Socket;
  readonly #far: Socket;
  lostBytes = false;

  constructor(near: Socket, far: Socket) {
    this.#near = near;
    this.#far = far;
  }

  pause(): void {
    this.#near.pause();
    this.#far.pause();
  }

  resume(): void {
    this.#near.resume();
    this.#far.resume();
  }

  destroy(): void {
    this.#near.destroy();
    this.#far.destroy();
  }
}

class TcpFaultProxy implements FaultProxy {
  readonly #server: Server;
  readonly #targetPort: number;
  readonly #links = new Set<Link>();
  #mode: Mode = 'pass';
  #delayMs = 0;
  port = 0;

  constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = createServer((near) => this.#accept(near));
  }

  get connections(): number {
    return this.#links.size;
  }

  async listen(port: number): Promise<void> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (address !== null && typeof address !== 'string') this.port = address.port;
  }

  delay(ms: number): void {
    this.#delayMs = ms;
  }

  cut(): void {
    this.#mode = 'cut';
    for (const link of this.#links) link.destroy();
  }

  blackHole(): void {
    this.#mode = 'black-hole';
  }

  pause(): void {
    this.#mode = 'pause';
    for (const link of this.#links) link.pause();
  }

  heal(): void {
    this.#mode = 'pass';
    this.#delayMs = 0;
    for (const link of this.#links) {
      if (link.lostBytes) link.destroy();
      else link.resume();
    }
  }

  async close(): Promise<void> {
    for (const link of this.#links) link.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #accept(near: Socket): void {
    if (this.#mode === 'cut') {
      near.destroy();
      return;
    }
    const far = connect(this.#targetPort, '127.0.0.1');
    const link = new Link(near, far);
    this.#links.add(link);
    const end = (): void => {
      link.destroy();
      this.#links.delete(link);
    };
    for (const socket of [near, far]) {
      socket.setNoDelay(true);
      socket.on('error', end);
      socket.on('close', end);
    }
    this.#pump(link, near, far);
    this.#pump(link, far, near);
    if (this.#mode === 'pause') link.pause();
  }

  #pump(link: Link, from: Socket, to: Socket): void {
    let lastDueMs = 0;
    from.on('data', (chunk) => {
      if (this.#mode === 'black-hole') {
        link.lostBytes = true;
        return;
      }
      const nowMs = performance.now();
      // A shorter delay must not let a chunk overtake the one before it.
      lastDueMs = Math.max(nowMs + this.#delayMs, lastDueMs);
      if (lastDueMs <= nowMs) to.write(chunk);
      else setTimeout(() => to.write(chunk), lastDueMs - nowMs);
    });
  }
}

/** Starts a proxy to `targetPort` of 127.0.0.1, on `port` or a free one. */
export async function startFaultProxy(targetPort: number, port = 0): Promise<FaultProxy> {
  const proxy = new TcpFaultProxy(targetPort);
  await proxy.listen(port);
  return proxy;
}
