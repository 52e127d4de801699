import { createRng, type Rng } from '@busbar/base';
import { readSse } from '@busbar/testkit';
import { type Cluster, words } from './cluster.ts';

/** When a client leaves: never, as soon as it has asked, at some time before the first token, or behind it. */
type Leave = 'never' | 'at-once' | 'somewhen' | 'after-token';

export interface LoadEnds {
  /** Answers that were complete. */
  whole: number;
  /** Clients that left. */
  left: number;
  /** Streams that ended with an error, or answers that were one, by code. */
  failed: Map<string, number>;
}

export interface SplitLoad {
  requests: number;
  inFlight: number;
  seed: number;
  /** Called when so many requests have ended. */
  at?: Readonly<Record<number, () => void | Promise<void>>>;
}

const OUTPUT_TOKENS = 12;
/** Nobody waits for longer: a request that hangs is a failure of the test. */
const REQUEST_MS = 30_000;

/** Where the next clients leave: spread over the time that a first token takes just now. */
class Patience {
  #ttftMs = 100;

  saw(ttftMs: number): void {
    this.#ttftMs += (ttftMs - this.#ttftMs) * 0.2;
  }

  pick(rng: Rng): number {
    return rng.next() * 1.1 * this.#ttftMs;
  }
}

/** Runs many chats of which two thirds are left by their clients in every stage; resolves when all have ended. */
export async function runSplitLoad(cluster: Cluster, load: SplitLoad): Promise<LoadEnds> {
  const rng = createRng(load.seed);
  const patience = new Patience();
  const ends: LoadEnds = { whole: 0, left: 0, failed: new Map() };
  let [sent, ended] = [0, 0];
  const lane = async (): Promise<void> => {
    while (sent < load.requests) {
      const seed = load.seed * 100_000 + sent++;
      const prompt = words(40 + rng.int(260), seed);
      const outcome = await disturbed(cluster, prompt, pickLeave(rng), patience, rng);
      if (outcome === 'whole' || outcome === 'left') ends[outcome]++;
      else ends.failed.set(outcome, (ends.failed.get(outcome) ?? 0) + 1);
      await load.at?.[++ended]?.();
    }
  };
  await Promise.all(Array.from({ length: load.inFlight }, lane));
  return ends;
}

function pickLeave(rng: Rng): Leave {
  const share = rng.next();
  if (share < 0.33) return 'never';
  if (share < 0.4) return 'at-once';
  return share < 0.88 ? 'somewhen' : 'after-token';
}

/** One chat. Answers `whole`, `left`, or the code of what went wrong. */
async function disturbed(
  cluster: Cluster,
  prompt: string,
  leave: Leave,
  patience: Patience,
  rng: Rng,
): Promise<string> {
  const controller = new AbortController();
  const signal = AbortSignal.any([controller.signal, AbortSignal.timeout(REQUEST_MS)]);
  const beganMs = performance.now();
  const leaveMs = leave === 'at-once' ? rng.int(3) : patience.pick(rng);
  const timed = leave === 'at-once' || leave === 'somewhen';
  const timer = timed ? setTimeout(() => controller.abort(), leaveMs) : undefined;
  try {
    const body = { model: 'm', stream: true, max_tokens: OUTPUT_TOKENS, ignore_eos: true };
    const messages = [{ role: 'user', content: prompt }];
    const headers = { 'content-type': 'application/json' };
    const init = { headers, signal };
    const response = await cluster.post('/v1/chat/completions', { ...body, messages }, init);
    if (!response.ok) return codeOf(await response.text());
    let hasToken = false;
    for await (const { data } of readSse(response)) {
      if (data === '[DONE]') return 'whole';
      if (data.startsWith('{"error"')) return codeOf(data);
      if (hasToken || !/"content":"[^"]/.test(data)) continue;
      hasToken = true;
      patience.saw(performance.now() - beganMs);
      if (leave === 'after-token') controller.abort();
    }
    return 'cut off';
  } catch (error) {
    return controller.signal.aborted ? 'left' : `client: ${String(error)}`;
  } finally {
    clearTimeout(timer);
    controller.abort();
  }
}

function codeOf(text: string): string {
  return /"code":"([^"]+)"/.exec(text)?.[1] ?? text.slice(0, 200);
}
