import { runLoadWorkload } from '../load-workload.ts';
import type { BenchContext } from '../run.ts';
import { startStack } from '../stack.ts';

interface Load {
  name: string;
  profile: string;
  kvBlocks: string;
  inFlight: number;
  requests: number;
  prefixWords: number;
  stack: readonly string[];
}

const LOADS: readonly Load[] = [
  {
    name: '1 in flight, 200 words',
    profile: 'dynamo-mocker',
    kvBlocks: '16384',
    inFlight: 1,
    requests: 30,
    prefixWords: 200,
    stack: ['--decode', '2'],
  },
  {
    name: '32 in flight, 200 words',
    profile: 'dynamo-mocker',
    kvBlocks: '16384',
    inFlight: 32,
    requests: 1000,
    prefixWords: 200,
    stack: ['--decode', '2'],
  },
  {
    name: '128 in flight, 200 words',
    profile: 'dynamo-mocker',
    kvBlocks: '16384',
    inFlight: 128,
    requests: 3000,
    prefixWords: 200,
    stack: ['--decode', '2'],
  },
  {
    name: '32 in flight, 1,500 words, instant',
    profile: 'instant',
    kvBlocks: '16384',
    inFlight: 32,
    requests: 1000,
    prefixWords: 1500,
    stack: ['--decode', '2'],
  },
  {
    name: '128 in flight, 200 words, 1 frontend, 1 router, 8 workers',
    profile: 'dynamo-mocker',
    kvBlocks: '16384',
    inFlight: 128,
    requests: 2000,
    prefixWords: 200,
    stack: ['--decode', '8'],
  },
  {
    name: '128 in flight, 200 words, 2 frontends, 2 routers, 8 workers',
    profile: 'dynamo-mocker',
    kvBlocks: '16384',
    inFlight: 128,
    requests: 2000,
    prefixWords: 200,
    stack: ['--decode', '8', '--frontends', '2', '--routers', '2'],
  },
];

/** CPU time of frontends, routers and nats-server for each output token, 64 tokens a request. */
export async function benchCpu(context: BenchContext): Promise<unknown> {
  const results: unknown[] = [];
  for (const load of LOADS) {
    const stack = await startStack([
      '--profile',
      load.profile,
      '--kv-blocks',
      load.kvBlocks,
      '--block-size',
      '16',
      '--model',
      context.model,
      ...context.modelFlags,
      ...load.stack,
    ]);
    try {
      const result = await runLoadWorkload({
        url: stack.url,
        model: context.model,
        inFlight: load.inFlight,
        requests: load.requests,
        warmUp: load.inFlight * 3,
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
