import { createRng } from '@busbar/base';
import { type ChatSample, chat, createAgent, quantile } from './chat-client.ts';
import { cpuMicros } from './machine.ts';
import { words } from './words.ts';

export interface LoadOptions {
  url: string;
  model: string;
  inFlight: number;
  requests: number;
  warmUp: number;
  /** Distinct prefixes that prompts share; 0 makes every prompt unique. */
  prefixes: number;
  prefixWords: number;
  tailWords: number;
  maxTokens: number;
  seed: number;
  /** Processes whose CPU time is counted. */
  pids: readonly number[];
}

export interface LoadResult {
  completed: number;
  errors: Record<string, number>;
  chunks: number;
  wallMs: number;
  tokensPerSec: number;
  cpuMicrosPerToken: number;
  cpuMsPerRequest: number;
  ttftMs: { p50: number; p95: number; p99: number };
  e2eMs: { p50: number; p99: number };
}

/** Closed loop: `inFlight` streams at a time until `requests` are done. The client's own CPU is not counted. */
export async function runLoadWorkload(options: LoadOptions): Promise<LoadResult> {
  const rng = createRng(options.seed);
  const prefixes = Array.from({ length: options.prefixes }, () => words(rng, options.prefixWords));
  const agent = createAgent();
  const run = async (count: number): Promise<ChatSample[]> => {
    const samples: ChatSample[] = [];
    let next = 0;
    const lane = async (): Promise<void> => {
      while (next < count) {
        next++;
        const prefix =
          prefixes.length > 0
            ? prefixes[rng.int(prefixes.length)]!
            : words(rng, options.prefixWords);
        samples.push(
          await chat({
            url: options.url,
            model: options.model,
            content: prefix + words(rng, options.tailWords),
            maxTokens: options.maxTokens,
            ignoreEos: true,
            includeUsage: false,
            agent,
            timeoutMs: 120_000,
          }),
        );
      }
    };
    await Promise.all(Array.from({ length: options.inFlight }, lane));
    return samples;
  };
  await run(options.warmUp);
  const cpuBefore = cpuMicros(options.pids);
  const started = performance.now();
  const samples = await run(options.requests);
  const wallMs = performance.now() - started;
  const cpu = cpuMicros(options.pids) - cpuBefore;
  agent.destroy();
  const good = samples.filter((sample) => sample.error === undefined);
  const errors: Record<string, number> = {};
  for (const { error } of samples)
    if (error !== undefined) errors[error] = (errors[error] ?? 0) + 1;
  const chunks = good.reduce((sum, sample) => sum + sample.chunks, 0);
  const ttfts = good.map((sample) => sample.ttftMs);
  const totals = good.map((sample) => sample.totalMs);
  return {
    completed: good.length,
    errors,
    chunks,
    wallMs,
    tokensPerSec: chunks / (wallMs / 1000),
    cpuMicrosPerToken: cpu / Math.max(chunks, 1),
    cpuMsPerRequest: cpu / 1000 / Math.max(good.length, 1),
    ttftMs: { p50: quantile(ttfts, 0.5), p95: quantile(ttfts, 0.95), p99: quantile(ttfts, 0.99) },
    e2eMs: { p50: quantile(totals, 0.5), p99: quantile(totals, 0.99) },
  };
}
