import { messageOf } from '@busbar/base';
import type { ModelCard } from '@busbar/protocol';
import { CliError } from '../errors.ts';
import { chatOnce, listModels } from '../http.ts';
import { pause } from '../wait.ts';
import type { Facts, Probe } from './facts.ts';

/** For all attempts together; a stack that needs longer has a worse fault than a cold cache. */
const PROBE_MS = 20_000;
/** KV events follow the step that made the blocks; routers apply them within milliseconds. */
const SETTLE_MS = 200;
const RESENDS = 3;
/** About 1,500 tokens of usual tokenizers. */
const WORDS_MAX = 1_100;
/** Tokens that a word may take in the worst of tokenizers, with room for the template and the answer. */
const TOKENS_PER_WORD = 8;
const CONTEXT_TOKENS = 8_192;

/** Sends one prompt that no cache can hold, then the same again until it hits and is faster. Never throws. */
export async function sendProbe(
  url: string,
  cards: readonly ModelCard[],
  signal: AbortSignal,
): Promise<Facts['probe']> {
  try {
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
    const model = (await listModels(url, bounded))[0];
    if (model === undefined) return { error: `${url} lists no model` };
    const context = cards.find((card) => card.name === model)?.contextTokens ?? CONTEXT_TOKENS;
    const content = probeText(crypto.randomUUID(), wordsFor(context));
    const probe: Probe = { promptTokens: 0, cachedTokens: [], ttftMs: [] };
    for (let attempt = 0; attempt <= RESENDS; attempt++) {
      const beganMs = performance.now();
      const answer = await chatOnce({
        url,
        model,
        messages: [{ role: 'user', content }],
        maxTokens: 1,
        signal: bounded,
      });
      probe.ttftMs.push(performance.now() - beganMs);
      probe.promptTokens = answer.promptTokens;
      probe.cachedTokens.push(answer.cachedTokens);
      if (attempt > 0 && hasPaid(probe)) break;
      await pause(SETTLE_MS, signal);
    }
    return probe;
  } catch (error) {
    const reason = messageOf(error);
    if (error instanceof CliError && error.code === 'CLI_CONTEXT') return { tooLong: reason };
    return {
      error: /abort|timeout/i.test(reason) ? `no answer within ${PROBE_MS / 1_000} s` : reason,
    };
  }
}

/** The last answer came from the cache, and sooner than the first: one that did not may have met other work. */
function hasPaid({ promptTokens, cachedTokens, ttftMs }: Probe): boolean {
  const isHit = (cachedTokens.at(-1) ?? 0) >= promptTokens / 2;
  return isHit && (ttftMs.at(-1) ?? 0) < (ttftMs[0] ?? 0);
}

function wordsFor(contextTokens: number): number {
  return Math.max(1, Math.min(WORDS_MAX, Math.floor(contextTokens / TOKENS_PER_WORD)));
}

/** Begins with what no other prompt begins with. */
function probeText(unique: string, count: number): string {
  const words = ['the', 'river', 'turns', 'under', 'a', 'stone', 'bridge', 'and', 'goes', 'on'];
  const text = Array.from({ length: count }, (_, i) => words[i % words.length]);
  return `${unique} ${text.join(' ')}`;
}
