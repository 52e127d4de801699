import { createRng } from '@busbar/base';
import { chat, createAgent, quantile } from './chat-client.ts';
import { words } from './words.ts';

export interface PrefixOptions {
  url: string;
  model: string;
  prefixes: number;
  rounds: number;
  batch: number;
  prefixWords: number;
  tailWords: number;
  maxTokens: number;
  seed: number;
}

export interface PrefixResult {
  reRequests: number;
  /** Re-requests whose prompt was at least half cached, by the engine's own report. */
  hits: number;
  errors: number;
  cachedRatio: number;
  hitTtftMsP50: number;
  missTtftMsP50: number;
}

/**
 * The shared-prefix workload: `prefixes` long prefixes, each asked `rounds` times in shuffled batches that are sent together
 * and awaited together; the last words of every prompt differ.
 */
export async function runPrefixWorkload(options: PrefixOptions): Promise<PrefixResult> {
  const rng = createRng(options.seed);
  const prefixes = Array.from({ length: options.prefixes }, () => words(rng, options.prefixWords));
  const order: number[] = [];
  for (let round = 0; round < options.rounds; round++) {
    const shuffled = prefixes.map((_, i) => i);
    for (let i = shuffled.length - 1; i > 0; i--) {
      const j = rng.int(i + 1);
      [shuffled[i], shuffled[j]] = [shuffled[j]!, shuffled[i]!];
    }
    order.push(...shuffled);
  }
  const agent = createAgent();
  const seen = new Set<number>();
  const result: PrefixResult = {
    reRequests: 0,
    hits: 0,
    errors: 0,
    cachedRatio: 0,
    hitTtftMsP50: 0,
    missTtftMsP50: 0,
  };
  const hitTtfts: number[] = [];
  const missTtfts: number[] = [];
  let cached = 0;
  let prompt = 0;
  for (let start = 0; start < order.length; start += options.batch) {
    const batch = order.slice(start, start + options.batch);
    const samples = await Promise.all(
      batch.map((prefix) =>
        chat({
          url: options.url,
          model: options.model,
          content: `${prefixes[prefix]}${words(rng, options.tailWords)}`,
          maxTokens: options.maxTokens,
          ignoreEos: false,
          includeUsage: true,
          agent,
          timeoutMs: 60_000,
        }),
      ),
    );
    samples.forEach((sample, i) => {
      const prefix = batch[i]!;
      if (sample.error !== undefined) result.errors++;
      else if (seen.has(prefix)) {
        result.reRequests++;
        cached += sample.cachedTokens;
        prompt += sample.promptTokens;
        const isHit = sample.cachedTokens * 2 >= sample.promptTokens;
        if (isHit) result.hits++;
        (isHit ? hitTtfts : missTtfts).push(sample.ttftMs);
      } else seen.add(prefix);
    });
  }
  agent.destroy();
  result.cachedRatio = cached / Math.max(prompt, 1);
  result.hitTtftMsP50 = quantile(hitTtfts, 0.5);
  result.missTtftMsP50 = quantile(missTtfts, 0.5);
  return result;
}
