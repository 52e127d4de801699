import { messageOf } from '@busbar/base';
import type { ModelCard } from '@busbar/protocol';
import { chatOnce, listModels } from '../clients/http.ts';
import { pause } from '../wait.ts';
import type { Facts, Probe } from './facts.ts';
import { type Asked, fitProbe } from './fit-probe.ts';

/** For all attempts together; a stack that needs longer has a worse fault than a cold cache. */
const PROBE_MS = 20_000;
/** KV events follow the step that made the blocks; routers apply them within milliseconds. */
const SETTLE_MS = 200;
const RESENDS = 3;

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
    const ask = (content: string): Promise<Asked> => askOnce(url, model, content, bounded);
    const first = await fitProbe(
      ask,
      cards.find((card) => card.name === model),
    );
    if ('tooLong' in first) return first;
    const { content, promptTokens } = first;
    const probe: Probe = {
      promptTokens,
      cachedTokens: [first.cachedTokens],
      ttftMs: [first.ttftMs],
    };
    for (let resend = 0; resend < RESENDS; resend++) {
      await pause(SETTLE_MS, signal);
      const again = await ask(content);
      probe.ttftMs.push(again.ttftMs);
      probe.cachedTokens.push(again.cachedTokens);
      if (hasPaid(probe)) break;
    }
    return probe;
  } catch (error) {
    const reason = messageOf(error);
    return {
      error: /abort|timeout/i.test(reason) ? `no answer within ${PROBE_MS / 1_000} s` : reason,
    };
  }
}

async function askOnce(
  url: string,
  model: string,
  content: string,
  signal: AbortSignal,
): Promise<Asked> {
  const beganMs = performance.now();
  const messages = [{ role: 'user', content }] as const;
  const answer = await chatOnce({ url, model, messages, maxTokens: 1, signal });
  const { promptTokens, cachedTokens } = answer;
  return { content, promptTokens, cachedTokens, ttftMs: performance.now() - beganMs };
}

/** The last answer came from the cache, and sooner than the first: one that did not may have met other work. */
function hasPaid({ promptTokens, cachedTokens, ttftMs }: Probe): boolean {
  const isHit = (cachedTokens.at(-1) ?? 0) >= promptTokens / 2;
  return isHit && (ttftMs.at(-1) ?? 0) < (ttftMs[0] ?? 0);
}
