import { runLoadWorkload } from '../load-workload.ts';
import type { BenchContext } from '../run.ts';
import { stackFlags, startStack } from '../stack.ts';

interface Load {
  name: string;
  profile: string;
  inFlight: number;
  /** Requests before those that count: code gets cheaper with use. */
  warmUp: number;
  requests: number;
  prefixWords: number;
}

const LOADS: readonly Load[] = [
  {
    name: '1 in flight, 200 words',
    profile: 'dynamo-mocker',
    inFlight: 1,
    warmUp: 30,
    requests: 30,
    prefixWords: 200,
  },
  {
    name: '32 in flight, 200 words',
    profile: 'dynamo-mocker',
    inFlight: 32,
    warmUp: 1024,
    requests: 512,
    prefixWords: 200,
  },
  {
    name: '128 in flight, 200 words',
    profile: 'dynamo-mocker',
    inFlight: 128,
    warmUp: 2048,
    requests: 768,
    prefixWords: 200,
  },
  {
    name: '32 in flight, 1,500 words, instant',
    profile: 'instant',
    inFlight: 32,
    warmUp: 256,
    requests: 384,
    prefixWords: 1500,
  },
];

/** CPU time of frontends, routers and nats-server for each output token, 64 tokens a request. */
export async function benchCpu(context: BenchContext): Promise<unknown> {
  const results: unknown[] = [];
  for (const load of LOADS) {
    const stack = await startStack([...stackFlags(context, load.profile), '--decode', '2']);
    try {
      const result = await runLoadWorkload({
        url: stack.url,
        model: context.model,
        inFlight: load.inFlight,
        requests: load.requests,
        warmUp: load.warmUp,
        prefixes: 12,
        prefixWords: load.prefixWords,
        tailWords: 24,
        maxTokens: 64,
        seed: 1,
        pids: stack.pids('frontend', 'router', 'nats'),
      });
      context.say(
        `${load.name}: ${result.cpuMicrosPerToken.toFixed(1)} us per token, TTFT p50 ${result.ttftMs.p50.toFixed(1)} ms`,
      );
      results.push({ load: load.name, ...result });
    } finally {
      await stack.down();
    }
  }
  return results;
}
