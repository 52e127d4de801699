import { NetStack, type NetStackOptions } from './net-stack.ts';
import { LOOPBACK, SHAPED } from './network.ts';
import { ask, type Load, type LoadResult, runLoad, warmUp } from './workload.ts';

const OUTPUT_TOKENS = 64;
const ROUNDS = 3;
/** The built-in tokenizer makes 1.05 tokens of a word: about 1,535 and 3,070 tokens, as in the experiment. */
const WORDS = [1_455, 2_915] as const;
const SHAPED_MODES = ['auto', 'never', 'always'] as const;
/** Qwen3-0.6B, in a cache that holds every prompt of a run. */
const WORKERS = {
  BUSBAR_MODEL: 'bench',
  BUSBAR_PROFILE: 'seed-8gb',
  BUSBAR_KV_BLOCKS: '8000',
  BUSBAR_KV_BYTES_PER_TOKEN: '114688',
};
/** A decode worker that takes over a second for a prompt of 1,500 words. */
const SLOW_DECODE = { BUSBAR_MOCK_SPEED: '0.06' };
const LOOPBACK_MODES = ['never', 'auto'] as const;
const BACKGROUND = { streams: 2, words: 30, maxTokens: 64 };

export type ShapedMode = (typeof SHAPED_MODES)[number];
export interface ShapedResult extends LoadResult {
  mode: ShapedMode;
}

/** The experiment: both prompt lengths in each mode, one at a time and four at once, over the shaped link. */
export async function runShaped(say: (line: string) => void): Promise<ShapedResult[]> {
  const results: ShapedResult[] = [];
  for (const mode of SHAPED_MODES) {
    await using stack = await NetStack.start({ places: SHAPED, mode, workers: WORKERS });
    await warmUp(stack);
    for (const count of WORDS) {
      for (const inFlight of [1, 4]) {
        const load: Load = { words: count, inFlight, rounds: ROUNDS, maxTokens: OUTPUT_TOKENS };
        const result = { mode, ...(await runLoad(stack, load)) };
        say(
          `${mode}, ${result.promptTokens} tokens, ${inFlight} at once: TTFT ${ms(result.ttftMs)}`,
        );
        results.push(result);
      }
    }
  }
  return results;
}

export type LoopbackMode = (typeof LOOPBACK_MODES)[number];
export interface LoopbackResult extends LoadResult {
  mode: LoopbackMode;
  /** Streams that run on the decode worker meanwhile. */
  running: number;
  /** Of those: time between two tokens, mean and longest; absent without such streams. */
  itlMs?: number;
  longestGapMs?: number;
}

/** A decode worker that prefills slowly, a prefill worker that does not, and nothing between them that slows KV. */
export async function runLoopback(say: (line: string) => void): Promise<LoopbackResult[]> {
  const results: LoopbackResult[] = [];
  const options: Omit<NetStackOptions, 'mode'> = {
    places: { prefill: LOOPBACK, decode: LOOPBACK },
    workers: WORKERS,
    decode: SLOW_DECODE,
  };
  const load: Load = { words: WORDS[0], inFlight: 1, rounds: ROUNDS, maxTokens: 4 };
  for (const mode of LOOPBACK_MODES) {
    await using stack = await NetStack.start({ ...options, mode });
    await warmUp(stack);
    const alone = await runLoad(stack, load);
    const beside = await runBeside(stack, load);
    for (const result of [{ running: 0, ...alone }, beside]) {
      say(`${mode}, ${result.running} streams run: TTFT ${ms(result.ttftMs)}`);
      results.push({ mode, ...result });
    }
  }
  return results;
}

async function runBeside(stack: NetStack, load: Load): Promise<Omit<LoopbackResult, 'mode'>> {
  const { streams, words, maxTokens } = BACKGROUND;
  const isDecoding = async (): Promise<boolean> =>
    (await stack.metric('decode', 'busbar_decode_running_requests')) === streams;
  const running = Array.from({ length: streams }, () => ask(stack, words, maxTokens));
  while (!(await isDecoding())) await new Promise((resolve) => setTimeout(resolve, 20));
  const result = await runLoad(stack, load);
  if (!(await isDecoding())) throw new Error('the streams ended before the measurement did');
  const samples = await Promise.all(running);
  const itls = samples.map(({ totalMs, ttftMs, chunks }) => (totalMs - ttftMs) / (chunks - 1));
  return {
    ...result,
    running: streams,
    itlMs: itls.reduce((sum, itl) => sum + itl, 0) / streams,
    longestGapMs: Math.max(...samples.map(({ maxGapMs }) => maxGapMs)),
  };
}

/** The configuration, so that a reader can repeat it by hand. */
export const SETTINGS = {
  workers: WORKERS,
  loopbackDecode: SLOW_DECODE,
  outputTokens: OUTPUT_TOKENS,
  rounds: ROUNDS,
  background: BACKGROUND,
};

function ms(value: number): string {
  return `${value.toFixed(0)} ms`;
}
