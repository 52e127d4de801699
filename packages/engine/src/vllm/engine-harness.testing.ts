// An engine on a fake vLLM of its own, and a sink that remembers. Only tests import it.
import { after } from 'node:test';
import type { WorkerInfo } from '@busbar/protocol';
import { request as contractRequest, prompt } from '../contract-recorder.ts';
import type { Engine, EngineDelta, EngineRequest, EngineSink } from '../port.ts';
import { until } from '../until.testing.ts';
import { FakeVllm, type FakeVllmOptions } from './fake-vllm.testing.ts';
import type { VllmEngineOptions } from './options.ts';
import { createVllmEngine } from './vllm-engine.ts';

export { prompt };

const clock = { monotonicMs: () => performance.now(), wallMs: () => Date.now() };
const SIZES = { blockSize: 16, kvBlocks: 64, contextTokens: 512 };

/** Fakes live as long as the tests of a file; engines are stopped by their tests. */
const fakes: FakeVllm[] = [];
after(() => Promise.all(fakes.map((fake) => fake.close())));

export async function startFake(options: Partial<FakeVllmOptions> = {}): Promise<FakeVllm> {
  const fake = await FakeVllm.start({ ...SIZES, ...options });
  fakes.push(fake);
  return fake;
}

export function optionsFor(
  fake: FakeVllm,
  more: Partial<VllmEngineOptions> = {},
): VllmEngineOptions {
  return {
    role: 'decode',
    engine: { kind: 'attach', url: fake.url },
    kvEvents: false,
    clock,
    ...more,
  };
}

/** A sink that keeps what it hears. */
export class Heard implements EngineSink {
  readonly deltas: EngineDelta[] = [];
  readonly steps: EngineDelta[][] = [];
  readonly said: string[] = [];
  infos: WorkerInfo[] = [];

  onStep({ deltas }: { deltas: EngineDelta[] }): void {
    this.steps.push(deltas);
    this.deltas.push(...deltas);
  }

  onKv(): void {}

  onCacheReset(): void {
    this.said.push('reset');
  }

  onStagedEnd(key: number, how: string): void {
    this.said.push(`staged ${key} ${how}`);
  }

  onFetchBegin(key: number): void {
    this.said.push(`fetch ${key}`);
  }

  onFetchEnd(key: number, { outcome, bytes }: { outcome: string; bytes: number }): void {
    this.said.push(`fetch ${key} ${outcome} ${bytes}`);
  }

  onInfo(info: WorkerInfo): void {
    this.infos.push(info);
  }

  onFault(error: Error): void {
    this.said.push(`fault ${error.message}`);
  }

  of(key: number): EngineDelta[] {
    return this.deltas.filter((delta) => delta.key === key);
  }

  async end(key: number): Promise<EngineDelta> {
    await until(`request ${key} ends`, () => this.of(key).some((delta) => delta.finish !== 'none'));
    return this.of(key).at(-1)!;
  }
}

/** A request of the contract suite with a prompt of its own. */
export function request(key: number, more: Partial<EngineRequest> = {}): EngineRequest {
  return contractRequest(key, prompt(40), more);
}

/** Runs `use` with an engine on a fake of its own. */
export async function withEngine(
  use: (engine: Engine, heard: Heard, fake: FakeVllm, info: WorkerInfo) => Promise<void>,
  fakeOptions: Partial<FakeVllmOptions> = {},
  engineOptions: Partial<VllmEngineOptions> = {},
): Promise<void> {
  const fake = await startFake(fakeOptions);
  const engine = createVllmEngine(optionsFor(fake, engineOptions));
  const heard = new Heard();
  const info = await engine.start(heard, new AbortController().signal);
  try {
    await use(engine, heard, fake, info);
  } finally {
    await engine.stop();
  }
}
