import type { ProcessView } from '../stack/stack-view.ts';
import { count, duration } from '../terminal/terminal.ts';
import type { Facts, Probe } from './facts.ts';
import type { Finding } from './finding.ts';
import { TYPICAL_PROMPT_TOKENS } from './split-facts.ts';

/** Prefix-aware policies: with the others a re-sent prompt may land anywhere. */
const PREFIX_POLICIES: readonly string[] = ['predictive', 'kv', 'approximate'];
/** Below this a prefill is lost among the milliseconds of everything else. */
const COMPARABLE_MS = 40;

/** Whether a prompt that is sent again hits, and is faster for it. */
export function judgeProbe({ probe, probeUrl, policy }: Facts): Finding[] {
  const group = 'prefix cache';
  const name = 'same prompt sent again';
  if (probe === undefined) return [];
  if ('error' in probe) {
    const advice = `the API at ${probeUrl ?? 'the frontend'} must answer before anything else can be judged`;
    return [{ group, name, verdict: 'fail', detail: probe.error, advice }];
  }
  if ('tooLong' in probe) {
    const advice =
      'the API answers, but no prompt that a cache could hold fits: serve the model with a longer context, or smaller blocks, to have this checked';
    return [{ group, name, verdict: 'warn', detail: `not tried: ${probe.tooLong}`, advice }];
  }
  const best = Math.max(0, ...probe.cachedTokens.slice(1));
  const [coldMs, warmMs] = timesOf(probe);
  const times =
    coldMs === undefined
      ? ''
      : `; first token after ${duration(coldMs)} cold, ${duration(warmMs)} again`;
  const detail = `${count(best)} of ${count(probe.promptTokens)} prompt tokens came from the cache${times}`;
  if (best < probe.promptTokens / 2) {
    const isExpected = policy !== undefined && !PREFIX_POLICIES.includes(policy);
    const advice = isExpected
      ? `policy ${policy} does not look at prefixes; --policy predictive does`
      : 'the router does not find prefixes again: see KV events above, and whether the caches are full below';
    return [{ group, name, verdict: isExpected ? 'warn' : 'fail', detail, advice }];
  }
  if (coldMs !== undefined && coldMs >= COMPARABLE_MS && warmMs >= coldMs) {
    const advice =
      'the hit saved no time: the engine computes what it has, or waits for something else; run the command again on a quiet stack';
    return [{ group, name, verdict: 'warn', detail, advice }];
  }
  return [{ group, name, verdict: 'ok', detail }];
}

/** The first time, and the best of the answers that hit. */
function timesOf({ ttftMs, cachedTokens, promptTokens }: Probe): [number, number] | [undefined, 0] {
  const [coldMs] = ttftMs;
  const warm = ttftMs.filter((_, i) => i > 0 && (cachedTokens[i] ?? 0) >= promptTokens / 2);
  if (coldMs === undefined || warm.length === 0) return [undefined, 0];
  return [coldMs, Math.min(...warm)];
}

/** Free blocks below this share mean that every new prefix pushes an old one out. */
const FULL_RATIO = 0.02;

/** Whether each cache holds what is asked of it. */
export function judgeCache(facts: Facts): Finding[] {
  return facts.stack.processes.flatMap((view): Finding[] => {
    const { kvBlocks, freeBlocks, activeBlocks = 0, blockSize } = view;
    if (kvBlocks === undefined || freeBlocks === undefined || blockSize === undefined) return [];
    const reusable = kvBlocks - freeBlocks - activeBlocks;
    const wanted = wantedBlocks(facts, view);
    const detail = [
      `${count(kvBlocks * blockSize)} tokens in ${count(kvBlocks)} blocks: ${count(reusable)} reusable, ${count(activeBlocks)} in use, ${count(freeBlocks)} free`,
      ...(wanted === undefined ? [] : [`${count(wanted * blockSize)} tokens of prefixes wanted`]),
    ].join('; ');
    const base = { group: 'cache size', name: view.id, detail };
    if (wanted !== undefined && wanted > kvBlocks) {
      const advice = `the prefixes in use do not fit, so prompts are computed again and again: add workers or memory (${(wanted / kvBlocks).toFixed(1)} times the size of this cache), or send fewer different prefixes`;
      return [{ ...base, verdict: 'warn', advice }];
    }
    if (freeBlocks > kvBlocks * FULL_RATIO) return [{ ...base, verdict: 'ok' }];
    const fit = Math.floor((kvBlocks * blockSize) / TYPICAL_PROMPT_TOKENS);
    const advice = `full: new prefixes push old ones out. About ${count(fit)} prompts of ${count(TYPICAL_PROMPT_TOKENS)} tokens fit; add workers or memory when more are in use`;
    return [{ ...base, verdict: 'warn', advice }];
  });
}

/** Distinct blocks that were lately asked for there, by the router that knows of most. */
function wantedBlocks({ routerWorkers }: Facts, { id }: ProcessView): number | undefined {
  const known = [...routerWorkers.values()]
    .flat()
    .filter((worker) => worker.workerId === id)
    .flatMap((worker) => worker.wantedBlocks ?? []);
  return known.length === 0 ? undefined : Math.max(...known);
}
