import { join } from 'node:path';
import {
  type ManagedProcess,
  type NatsServer,
  spawnProcess,
  startNatsServer,
  waitFor,
} from '@busbar/testkit';
import { LOOPBACK, type Place } from './network.ts';

const SERVICES = join(import.meta.dirname, '../../../services');
const START_MS = 60_000;
/** In network namespaces of one's own every port is free. */
const NATS_PORT = 4222;
const HTTP_PORT = 8000;

type Role = 'frontend' | 'router' | 'decode' | 'prefill';
const ADMIN_PORTS: Readonly<Record<Role, number>> = {
  frontend: 9101,
  router: 9102,
  decode: 9103,
  prefill: 9104,
};

export interface NetStackOptions {
  places: Readonly<Record<'prefill' | 'decode', Place>>;
  mode: 'auto' | 'always' | 'never';
  /** Environment of both workers, and of each. */
  workers: Readonly<Record<string, string>>;
  decode?: Readonly<Record<string, string>>;
  prefill?: Readonly<Record<string, string>>;
}

/** A placement of the router, as far as it tells of a split. */
export interface Decision {
  decisionId: string;
  promptTokens: number;
  split?: {
    isSplit: boolean;
    cause: string;
    reason: string;
    local: { totalMs: number };
    pair?: {
      bytes: number;
      bytesAhead: number;
      bytesPerMs: number;
      source: string;
      terms: Record<string, number>;
      totalMs: number;
    };
  };
}

/** What a decode worker has measured of its link. */
export interface LinkFigures {
  transfers: number;
  failures: number;
  bytesTotal: number;
  busyMsTotal: number;
  bytesPerMs: number;
  source: string;
}

/** One prefill and one decode worker with frontend, router and bus, each process where it belongs. */
export class NetStack implements AsyncDisposable {
  readonly url = `http://127.0.0.1:${HTTP_PORT}`;
  readonly #options: NetStackOptions;
  readonly #nats: NatsServer;
  readonly #processes: ManagedProcess[] = [];

  private constructor(options: NetStackOptions, nats: NatsServer) {
    this.#options = options;
    this.#nats = nats;
  }

  static async start(options: NetStackOptions): Promise<NetStack> {
    const nats = await startNatsServer({ port: NATS_PORT, args: ['-a', '0.0.0.0'] });
    const stack = new NetStack(options, nats);
    try {
      for (const role of ['decode', 'prefill', 'router', 'frontend'] as const) stack.#spawn(role);
      await stack.#ready();
      return stack;
    } catch (error) {
      await stack[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Newest first. */
  decisions(): Promise<Decision[]> {
    return this.#admin<Decision[]>('router', '/decisions');
  }

  async link(): Promise<LinkFigures> {
    const [figures] = await this.#admin<LinkFigures[]>('decode', '/links');
    if (figures === undefined) throw new Error('the decode worker knows of no link');
    return figures;
  }

  /** The sum of one metric over its samples. */
  async metric(role: Role, name: string): Promise<number> {
    const response = await fetch(`${this.#adminUrl(role)}/metrics`);
    let sum = 0;
    for (const line of (await response.text()).split('\n')) {
      if (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) {
        sum += Number(line.slice(line.lastIndexOf(' ') + 1));
      }
    }
    return sum;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.kill()));
    await this.#nats.stop();
  }

  #placeOf(role: Role): Place {
    return role === 'decode' || role === 'prefill' ? this.#options.places[role] : LOOPBACK;
  }

  #adminUrl(role: Role): string {
    return `http://${this.#placeOf(role).busHost}:${ADMIN_PORTS[role]}`;
  }

  async #admin<T>(role: Role, path: string): Promise<T> {
    return (await (await fetch(this.#adminUrl(role) + path)).json()) as T;
  }

  #spawn(role: Role): void {
    const { mode, workers, decode, prefill } = this.#options;
    const { exec, busHost, natsHost, transferHost } = this.#placeOf(role);
    const own: Readonly<Record<Role, Readonly<Record<string, string>>>> = {
      frontend: { BUSBAR_HTTP_HOST: '127.0.0.1', BUSBAR_HTTP_PORT: `${HTTP_PORT}` },
      router: { BUSBAR_DISAGGREGATION: mode },
      decode: { ...workers, ...decode, BUSBAR_TRANSFER_HOST: transferHost },
      prefill: { ...workers, ...prefill, BUSBAR_TRANSFER_HOST: transferHost },
    };
    const main = join(SERVICES, role, 'src/main.ts');
    const [command, ...before] = exec;
    const [file, args] =
      command === undefined
        ? [process.execPath, [main]]
        : [command, [...before, process.execPath, main]];
    const env = {
      BUSBAR_NATS_URL: `nats://${natsHost}:${NATS_PORT}`,
      BUSBAR_NAMESPACE: 'bench',
      BUSBAR_ID: role,
      BUSBAR_ADMIN_HOST: busHost,
      BUSBAR_ADMIN_PORT: `${ADMIN_PORTS[role]}`,
      ...own[role],
    };
    this.#processes.push(spawnProcess(file, { args, env }));
  }

  /** The frontend serves, and the router knows what the decode worker's probe found. */
  async #ready(): Promise<void> {
    const isReady = async (): Promise<boolean> => {
      if (this.#processes.some(({ exit }) => exit !== undefined)) return true;
      if (!(await fetch(`${this.url}/ready`)).ok) return false;
      const pairs = await this.#admin<{ source: string }[]>('router', '/links');
      return pairs.some(({ source }) => source === 'probe' || source === 'transfers');
    };
    await waitFor(isReady, START_MS, 'the stack to be ready').catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.#tails()}`);
    });
    if (this.#processes.some(({ exit }) => exit !== undefined)) {
      throw new Error(`a process ended:\n${this.#tails()}`);
    }
  }

  #tails(): string {
    return this.#processes.map(({ output }) => output.slice(-1_000)).join('\n');
  }
}
