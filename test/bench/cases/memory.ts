import { runLoadWorkload } from '../load-workload.ts';
import { residentMib } from '../machine.ts';
import type { BenchContext } from '../run.ts';
import { stackFlags, startStack } from '../stack.ts';

/** Resident memory of the frontend over 30,000 requests in parts of 1,000: below 300 MB and flat. */
export async function benchMemory(context: BenchContext): Promise<unknown> {
  const stack = await startStack(stackFlags(context, 'instant'));
  const [frontend = 0] = stack.pids('frontend');
  const mib = [residentMib(frontend)];
  try {
    for (let part = 0; part < 30; part++) {
      await runLoadWorkload({
        url: stack.url,
        model: context.model,
        inFlight: 64,
        requests: 1000,
        warmUp: 0,
        prefixes: 0,
        prefixWords: 200,
        tailWords: 24,
        maxTokens: 16,
        seed: part,
        pids: [frontend],
      });
      mib.push(residentMib(frontend));
    }
  } finally {
    await stack.down();
  }
  context.say(`frontend: ${mib.map((value) => value.toFixed(0)).join(' ')} MiB`);
  return { frontendMib: mib };
}
