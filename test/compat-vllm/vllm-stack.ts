import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import {
  freePort,
  type ManagedProcess,
  type NatsServer,
  spawnProcess,
  startNatsServer,
  waitFor,
} from '@busbar/testkit';
import { z } from 'zod';
import { openLab } from './lab.ts';

const SERVICES = join(import.meta.dirname, '../../services');
export const MODEL = 'tiny';
export const NAMESPACE = 'vllm';
/** On CPU the block size is a multiple of 32. */
export const BLOCK_SIZE = 32;
/** Three Python processes import vLLM one after the other, on a machine that may be busy. */
const START_MS = 8 * 60_000;
const STOP_MS = 30_000;

/** 48 blocks of 32 tokens, so that a few prompts evict each other. */
const VLLM_ARGS = [
  // A worker process of its own would wait for work by yielding without end, which keeps whole machines of two cores from all else for seconds.
  '--distributed-executor-backend uni',
  '--enforce-eager',
  '--num-gpu-blocks-override 48',
  '--max-num-seqs 8',
  '--max-num-batched-tokens 512',
  '--kv-cache-memory-bytes 16777216',
  '--enable-prefix-caching',
  // It says when it aborts one.
  '--enable-log-requests',
].join(' ');

const VLLM_ENV = {
  HF_HUB_OFFLINE: '1',
  DO_NOT_TRACK: '1',
  VLLM_CPU_OMP_THREADS_BIND: 'nobind',
  OMP_NUM_THREADS: '1',
  // Without it the build for CPUs takes another executor than it is told.
  VLLM_ENABLE_V1_MULTIPROCESSING: '0',
  VLLM_HOST_IP: '127.0.0.1',
  UCX_TLS: 'tcp,shm,self',
  UCX_NET_DEVICES: 'lo',
};

export type Role = 'frontend' | 'router' | 'decode' | 'prefill';
type Env = Record<string, string>;

export interface Member {
  role: Role;
  id: string;
  adminUrl: string;
  /** Of its vLLM. */
  vllmUrl: string;
  process: ManagedProcess;
}

const linksSchema = z.array(z.object({ isProven: z.boolean() }));
const generatedSchema = z.object({ choices: z.array(z.object({ token_ids: z.array(z.int()) })) });

/** Frontend, router and workers with real vLLMs, as processes on a nats-server of their own; `await using` ends them all. */
export class VllmStack implements AsyncDisposable {
  readonly nats: NatsServer;
  readonly members: Member[] = [];
  #frontendUrl = '';

  private constructor(nats: NatsServer) {
    this.nats = nats;
  }

  static async start(
    workers: readonly ('decode' | 'prefill')[],
    env: { worker?: Env; router?: Env; tell: (line: string) => void },
  ): Promise<VllmStack> {
    const lab = await openLab(env.tell);
    const stack = new VllmStack(await startNatsServer());
    try {
      const beganMs = performance.now();
      await Promise.all([
        stack.#add('router', env.router),
        stack.#add('frontend'),
        ...workers.map((role) => {
          return stack.#add(role, {
            ...VLLM_ENV,
            BUSBAR_ENGINE: 'vllm',
            BUSBAR_MODEL: MODEL,
            BUSBAR_MODEL_PATH: lab.modelPath,
            BUSBAR_BLOCK_SIZE: `${BLOCK_SIZE}`,
            BUSBAR_CONTEXT_TOKENS: '1024',
            // What vLLM writes is among the worker's debug lines.
            BUSBAR_LOG_LEVEL: 'debug',
            BUSBAR_VLLM_COMMAND: lab.command,
            BUSBAR_VLLM_ARGS: VLLM_ARGS,
            ...env.worker,
          });
        }),
      ]);
      await stack.#waitServing();
      const seconds = (performance.now() - beganMs) / 1_000;
      env.tell(`${workers.join(' and ')} serve after ${seconds.toFixed(1)} s`);
      return stack;
    } catch (error) {
      await stack[Symbol.asyncDispose]();
      throw error;
    }
  }

  get url(): string {
    return this.#frontendUrl;
  }

  ofRole(role: Role): Member {
    const member = this.members.find((one) => one.role === role);
    if (member === undefined) throw new Error(`no ${role}`);
    return member;
  }

  /** The sum of one metric of a page, over the samples whose labels contain `labels`. */
  async metric(page: string, name: string, labels = ''): Promise<number> {
    const text = await (await fetch(`${page}/metrics`)).text();
    const lines = text.split('\n').filter((line) => {
      return (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(labels);
    });
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  }

  /** Waits until the router splits requests over the pair of workers; milliseconds that it took. */
  async proven(limitMs: number): Promise<number> {
    const beganMs = performance.now();
    const { adminUrl } = this.ofRole('router');
    await waitFor(
      async () => {
        const links = linksSchema.parse(await (await fetch(`${adminUrl}/links`)).json());
        return links.some(({ isProven }) => isProven);
      },
      limitMs,
      'KV over the new link',
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.outputs()}`, { cause: error });
    });
    return performance.now() - beganMs;
  }

  /** Asks a vLLM itself, past Busbar: greedy, and no end before `maxTokens`. */
  async direct(member: Member, tokens: Uint32Array, maxTokens: number): Promise<number[]> {
    const response = await fetch(`${member.vllmUrl}/inference/v1/generate`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        token_ids: [...tokens],
        sampling_params: { temperature: 0, max_tokens: maxTokens, ignore_eos: true },
      }),
    });
    const answer = generatedSchema.parse(await response.json());
    return answer.choices.flatMap(({ token_ids: ids }) => ids);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.members.map((member) => member.process.stop(STOP_MS)));
    await this.nats.stop();
  }

  async #add(role: Role, env: Env = {}): Promise<void> {
    const [adminPort, port] = [await freePort(), await freePort()];
    const id = `${role}-1`;
    const started = spawnProcess(process.execPath, {
      args: [join(SERVICES, role, 'src/main.ts')],
      env: {
        BUSBAR_NATS_URL: this.nats.url,
        BUSBAR_NAMESPACE: NAMESPACE,
        BUSBAR_ID: id,
        BUSBAR_ADMIN_PORT: `${adminPort}`,
        // Services refuse variables that they do not know.
        BUSBAR_VLLM_LAB: undefined,
        ...(role === 'frontend' ? { BUSBAR_HTTP_PORT: `${port}` } : {}),
        ...(role === 'decode' || role === 'prefill' ? { BUSBAR_VLLM_PORT: `${port}` } : {}),
        ...env,
      },
    });
    if (role === 'frontend') this.#frontendUrl = `http://127.0.0.1:${port}`;
    this.members.push({
      role,
      id,
      adminUrl: `http://127.0.0.1:${adminPort}`,
      vllmUrl: `http://127.0.0.1:${port}`,
      process: started,
    });
  }

  async #waitServing(): Promise<void> {
    const urls = [this.#frontendUrl, ...this.members.map(({ adminUrl }) => adminUrl)];
    await waitFor(
      async () => {
        const ended = this.members.find((one) => one.process.exit !== undefined);
        if (ended !== undefined) return true;
        const answers = await Promise.all(urls.map((url) => fetch(`${url}/ready`)));
        return answers.every(({ ok }) => ok);
      },
      START_MS,
      'the stack to be ready',
    ).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.outputs()}`, { cause: error });
    });
    const ended = this.members.find((one) => one.process.exit !== undefined);
    if (ended !== undefined) throw new Error(`${ended.id} ended\n${this.outputs()}`);
  }

  /** The end of what each process has written. */
  outputs(): string {
    return this.members.map((one) => `${one.id}: ${one.process.output.slice(-30_000)}`).join('\n');
  }
}

/** Token ids that make text, different for each seed. */
export function promptTokens(count: number, seed: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, i) => 20 + ((i * 7 + seed * 131 + i * i) % 300));
}
