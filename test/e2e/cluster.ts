import { join } from 'node:path';
import {
  freePort,
  type ManagedProcess,
  type NatsServer,
  readSse,
  spawnProcess,
  startNatsServer,
  waitFor,
} from '@busbar/testkit';

const SERVICES = join(import.meta.dirname, '../../services');
const START_MS = 20_000;

export type Role = 'frontend' | 'router' | 'decode' | 'prefill';
type Env = Record<string, string>;

export interface ClusterOptions {
  decode?: number;
  prefill?: number;
  routers?: number;
  frontends?: number;
  /** Environment of every process, and of the processes of one role on top. */
  env?: Env;
  decodeEnv?: Env;
  prefillEnv?: Env;
  routerEnv?: Env;
  frontendEnv?: Env;
  natsArgs?: string[];
}

export interface Member {
  role: Role;
  id: string;
  adminUrl: string;
  process: ManagedProcess;
}

export interface ChatResult {
  status: number;
  text: string;
  finish: string | null;
  error: { message: string; type: string; code: string | null; param: string | null } | undefined;
  done: boolean;
  usage: Usage | undefined;
  headers: Headers;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
}

/** Real processes on a nats-server of their own, on free ports; `await using` ends them all. */
export class Cluster implements AsyncDisposable {
  readonly nats: NatsServer;
  readonly members: Member[] = [];
  readonly #options: ClusterOptions;
  #frontendPorts: number[] = [];
  #count = 0;

  private constructor(nats: NatsServer, options: ClusterOptions) {
    this.nats = nats;
    this.#options = options;
  }

  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    const nats = await startNatsServer({ args: options.natsArgs ?? [] });
    const cluster = new Cluster(nats, options);
    try {
      const { routers = 1, decode = 2, prefill = 0, frontends = 1 } = options;
      await Promise.all([
        ...Array.from({ length: routers }, () => cluster.add('router')),
        ...Array.from({ length: decode }, () => cluster.add('decode')),
        ...Array.from({ length: prefill }, () => cluster.add('prefill')),
        ...Array.from({ length: frontends }, () => cluster.add('frontend')),
      ]);
      for (let i = 0; i < frontends; i++) await cluster.waitReady(i);
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Starts one more process; resolves when its admin server answers. */
  async add(role: Role, env: Env = {}): Promise<Member> {
    const adminPort = await freePort();
    const id = `${role}-${++this.#count}`;
    const ownEnv: Env = {
      BUSBAR_NATS_URL: this.nats.url,
      BUSBAR_NAMESPACE: 'e2e',
      BUSBAR_ID: id,
      BUSBAR_ADMIN_PORT: `${adminPort}`,
      ...this.#options.env,
      ...(role === 'decode' ? { BUSBAR_MODEL: 'm', ...this.#options.decodeEnv } : {}),
      ...(role === 'prefill' ? { BUSBAR_MODEL: 'm', ...this.#options.prefillEnv } : {}),
      ...(role === 'router' ? this.#options.routerEnv : {}),
      ...(role === 'frontend' ? this.#options.frontendEnv : {}),
      ...env,
    };
    if (role === 'frontend') {
      const port = await freePort();
      ownEnv['BUSBAR_HTTP_PORT'] = `${port}`;
      this.#frontendPorts.push(port);
    }
    const started = spawnProcess(process.execPath, {
      args: [join(SERVICES, role, 'src/main.ts')],
      env: ownEnv,
    });
    const member: Member = {
      role,
      id,
      adminUrl: `http://127.0.0.1:${adminPort}`,
      process: started,
    };
    this.members.push(member);
    await waitFor(
      async () => {
        if (started.exit !== undefined) return true;
        const urls = [
          member.adminUrl,
          ...(role === 'frontend' ? [`http://127.0.0.1:${ownEnv['BUSBAR_HTTP_PORT']}`] : []),
        ];
        return (await Promise.all(urls.map((url) => fetch(`${url}/live`)))).every(({ ok }) => ok);
      },
      START_MS,
      `${id} to answer`,
    );
    if (started.exit !== undefined)
      throw new Error(`${id} ended with ${started.exit}:\n${started.output}`);
    return member;
  }

  url(frontend = 0): string {
    return `http://127.0.0.1:${this.#frontendPorts[frontend]}`;
  }

  ofRole(role: Role): Member[] {
    return this.members.filter(
      (member) => member.role === role && member.process.exit === undefined,
    );
  }

  async waitReady(frontend = 0, timeoutMs = START_MS): Promise<void> {
    await waitFor(
      async () => (await fetch(`${this.url(frontend)}/ready`)).ok,
      timeoutMs,
      'frontend to be ready',
    ).catch((error: unknown) => {
      throw new Error(
        `${String(error)}\n${this.members.map((m) => `${m.id}: ${m.process.output.slice(-1500)}`).join('\n')}`,
      );
    });
  }

  post(path: string, body: unknown, init: RequestInit = {}, frontend = 0): Promise<Response> {
    return fetch(this.url(frontend) + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...init,
    });
  }

  /** A streamed chat read to its end. */
  async chat(
    content: string,
    extra: object = {},
    init: RequestInit = {},
    frontend = 0,
  ): Promise<ChatResult> {
    const body = {
      model: 'm',
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content }],
      ...extra,
    };
    return readChat(await this.post('/v1/chat/completions', body, init, frontend));
  }

  /** The sum of one metric over the samples whose labels contain `labels`. */
  async metric(member: Member, name: string, labels = ''): Promise<number> {
    const text = await (await fetch(`${member.adminUrl}/metrics`)).text();
    if (!text.includes(`# TYPE ${name} `)) throw new Error(`${member.id} has no metric ${name}`);
    let sum = 0;
    for (const line of text.split('\n')) {
      if (!line.startsWith(`${name}{`) && !line.startsWith(`${name} `)) continue;
      if (labels !== '' && !line.includes(labels)) continue;
      sum += Number(line.slice(line.lastIndexOf(' ') + 1));
    }
    return sum;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.members.map((member) => member.process.kill()));
    await this.nats.stop();
  }
}

async function readChat(response: Response): Promise<ChatResult> {
  const result: ChatResult = {
    status: response.status,
    text: '',
    finish: null,
    error: undefined,
    done: false,
    usage: undefined,
    headers: response.headers,
  };
  if (response.headers.get('content-type')?.startsWith('application/json')) {
    const body = (await response.json()) as {
      error?: ChatResult['error'];
      usage?: Usage;
      choices?: { message?: { content: string }; finish_reason: string }[];
    };
    result.error = body.error;
    result.usage = body.usage;
    result.text = body.choices?.[0]?.message?.content ?? '';
    result.finish = body.choices?.[0]?.finish_reason ?? null;
    return result;
  }
  for await (const { data } of readSse(response)) {
    if (data === '[DONE]') {
      result.done = true;
      continue;
    }
    const chunk = JSON.parse(data) as {
      error?: ChatResult['error'];
      usage?: Usage | null;
      choices?: { delta?: { content?: string }; finish_reason: string | null }[];
    };
    if (chunk.error !== undefined) result.error = chunk.error;
    if (chunk.usage) result.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    result.text += choice?.delta?.content ?? '';
    result.finish = choice?.finish_reason ?? result.finish;
  }
  return result;
}

/** Words that make `count` tokens or a few more, different for each seed. */
export function words(count: number, seed: number): string {
  return Array.from({ length: count }, (_, i) => `word${(i * 7919 + seed * 104_729) % 9973}`).join(
    ' ',
  );
}
