import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureNatsServer } from '@busbar/nats-server';
import { freePort } from './free-port.ts';
import { type ManagedProcess, spawnProcess } from './spawn-process.ts';
import { waitFor } from './wait-for.ts';

const READY_MS = 10_000;
const START_ATTEMPTS = 3;

export interface NatsServerOptions {
  /** A free one by default. */
  port?: number;
  /** A temporary folder by default, removed by `stop`. */
  storeDir?: string;
  /** JetStream is on by default. */
  jetStream?: boolean;
  /** More arguments for the command line. */
  args?: string[];
}

/** A nats-server of a test's own. */
export interface NatsServer {
  readonly url: string;
  readonly port: number;
  /** Of the running process; another one after `restart`. */
  readonly pid: number;
  readonly storeDir: string;
  readonly output: string;
  /** SIGKILL. The store stays for `restart`. */
  kill(): Promise<void>;
  /** Starts it again on the same port and store (and kills it first when it runs). */
  restart(): Promise<void>;
  /** Freezes it (SIGSTOP): connections stay open and nothing answers. */
  pause(): void;
  resume(): void;
  /** Ends it and removes its store. */
  stop(): Promise<void>;
}

let binary: Promise<string> | undefined;

function binaryPath(): Promise<string> {
  binary ??= ensureNatsServer().then(({ path }) => path);
  return binary;
}

/** True when a NATS server greets on `port`. */
async function greets(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    const [chunk]: unknown[] = await once(socket, 'data', { signal: AbortSignal.timeout(1_000) });
    return String(chunk).startsWith('INFO');
  } finally {
    socket.destroy();
  }
}

class TestNatsServer implements NatsServer {
  readonly port: number;
  readonly storeDir: string;
  readonly #options: NatsServerOptions;
  #process: ManagedProcess | undefined;

  constructor(port: number, options: NatsServerOptions) {
    this.port = port;
    this.#options = options;
    this.storeDir = options.storeDir ?? mkdtempSync(join(tmpdir(), 'busbar-nats-'));
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    return this.#process?.pid ?? -1;
  }

  get output(): string {
    return this.#process?.output ?? '';
  }

  async start(): Promise<void> {
    const { jetStream = true, args = [] } = this.#options;
    const store = jetStream ? ['-js', '-sd', this.storeDir] : [];
    const server = spawnProcess(await binaryPath(), {
      args: ['-a', '127.0.0.1', '-p', `${this.port}`, ...store, ...args],
    });
    this.#process = server;
    await waitFor(
      () => {
        if (server.exit !== undefined) return true;
        return greets(this.port);
      },
      READY_MS,
      `nats-server on port ${this.port}`,
    );
    if (server.exit !== undefined) throw new Error(`nats-server ended: ${server.output}`);
  }

  async kill(): Promise<void> {
    await this.#process?.kill();
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  pause(): void {
    this.#process?.signal('SIGSTOP');
  }

  resume(): void {
    this.#process?.signal('SIGCONT');
  }

  async stop(): Promise<void> {
    await this.#process?.kill();
    if (this.#options.storeDir === undefined)
      rmSync(this.storeDir, { recursive: true, force: true });
  }
}

/** Starts a nats-server on 127.0.0.1 and resolves when it answers. It never outlives the calling process. */
export async function startNatsServer(options: NatsServerOptions = {}): Promise<NatsServer> {
  for (let attempt = 1; ; attempt++) {
    const server = new TestNatsServer(options.port ?? (await freePort()), options);
    try {
      await server.start();
      return server;
    } catch (error) {
      await server.stop();
      // Somebody else may have taken the free port meanwhile.
      if (options.port !== undefined || attempt === START_ATTEMPTS) throw error;
    }
  }
}
