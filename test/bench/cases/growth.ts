import { quantile } from '../chat-client.ts';
import { runLoadWorkload } from '../load-workload.ts';
import type { BenchContext } from '../run.ts';
import { type Stack, stackFlags, startStack } from '../stack.ts';

interface Size {
  name: string;
  stack: readonly string[];
  inFlight: number;
  /** Each frontend and router has served as many requests before as those of the other size: code warms up by use. */
  warmUp: number;
  requests: number;
}

const SMALL: Size = {
  name: '1 frontend, 1 router, 1 worker, 32 in flight',
  stack: ['--decode', '1'],
  inFlight: 32,
  warmUp: 2000,
  requests: 500,
};
const LARGE: Size = {
  name: '2 frontends, 2 routers, 8 workers, 256 in flight',
  stack: ['--decode', '8', '--frontends', '2', '--routers', '2'],
  inFlight: 256,
  warmUp: 4000,
  requests: 1500,
};
const ROUNDS = 6;

/**
 * CPU time for each output token of a small and a large stack with the same load on each worker. Both run side by side and are loaded by
 * turns, so that the machine's phases meet both; which was started first matters by some percent, so there are two starts.
 */
export async function benchGrowth(context: BenchContext): Promise<unknown> {
  const starts: { order: string[]; ratio: number; micros: Record<string, number[]> }[] = [];
  for (const order of [
    [SMALL, LARGE],
    [LARGE, SMALL],
  ]) {
    const micros = await takeTurns(context, order);
    const median = ({ name }: Size): number => quantile(micros[name]!, 0.5);
    const ratio = median(LARGE) / median(SMALL);
    for (const size of order) context.say(`${size.name}: ${median(size).toFixed(1)} us per token`);
    context.say(`large to small: ${ratio.toFixed(2)}`);
    starts.push({ order: order.map(({ name }) => name), ratio, micros });
  }
  const mean = Math.sqrt(starts[0]!.ratio * starts[1]!.ratio);
  context.say(`geometric mean of both starts: ${mean.toFixed(2)}`);
  return { ratio: mean, starts };
}

async function takeTurns(
  context: BenchContext,
  sizes: readonly Size[],
): Promise<Record<string, number[]>> {
  const micros: Record<string, number[]> = {};
  const running: { size: Size; stack: Stack }[] = [];
  const load = async (at: number, requests: number, seed: number): Promise<number> => {
    const { size, stack } = running[at]!;
    const { errors, cpuMicrosPerToken } = await runLoadWorkload({
      url: stack.url,
      model: context.model,
      inFlight: size.inFlight,
      requests,
      warmUp: 0,
      prefixes: 12,
      prefixWords: 200,
      tailWords: 24,
      maxTokens: 64,
      seed,
      pids: stack.pids('frontend', 'router', 'nats'),
    });
    if (Object.keys(errors).length > 0) throw new Error(`${size.name}: ${JSON.stringify(errors)}`);
    return cpuMicrosPerToken;
  };
  try {
    for (const size of sizes) {
      const flags = [...stackFlags(context, 'dynamo-mocker'), ...size.stack];
      running.push({ size, stack: await startStack(flags) });
      micros[size.name] = [];
    }
    for (let at = 0; at < running.length; at++) await load(at, running[at]!.size.warmUp, 1);
    for (let round = 0; round < ROUNDS; round++) {
      for (const at of round % 2 === 0 ? [0, 1] : [1, 0]) {
        const { name, requests } = running[at]!.size;
        micros[name]!.push(await load(at, requests, 2 + round));
      }
    }
  } finally {
    for (const { stack } of running) await stack.down();
  }
  return micros;
}
