import type { LinkRecord, WorkerInfo, WorkerLoad } from '@busbar/protocol';
import type { Facts } from './facts.ts';

/** One worker as routers know it. */
interface WorkerFact {
  id: string;
  epoch: number;
  info: WorkerInfo;
  /** Its last heartbeat; absent when none was heard. */
  load: WorkerLoad | undefined;
}

/** What a prediction rests on: the workers of one model and what was measured between them. */
export interface SplitFacts {
  decode: readonly WorkerFact[];
  prefill: readonly WorkerFact[];
  links: readonly LinkRecord[];
  /** Requests that each decode worker is taken to run. */
  running: number;
}

/** A prompt as agents send many. */
export const TYPICAL_PROMPT_TOKENS = 1_500;
/** What a prompt that fills the context leaves of it for the answer. */
const ANSWER_TOKENS = 64;

/** The workers by model, those of models that somebody decodes. One that has ended holds its lease for some seconds more. */
export function modelsOf({ cluster, links, stack }: Facts): SplitFacts[] {
  const ended = new Set(
    stack.processes.filter(({ state }) => state === 'exited').map(({ id }) => id),
  );
  const models = new Map<string, { decode: WorkerFact[]; prefill: WorkerFact[] }>();
  for (const { id, epoch, worker } of cluster?.instances.values() ?? []) {
    if (worker === undefined || ended.has(id)) continue;
    const pools = models.get(worker.model) ?? { decode: [], prefill: [] };
    pools[worker.role].push({ id, epoch, info: worker, load: cluster?.loads.get(id) });
    models.set(worker.model, pools);
  }
  return [...models.values()]
    .filter(({ decode }) => decode.length > 0)
    .map((pools) => ({ ...pools, links, running: meanRunning(pools.decode) }));
}

/** Prompts that the figures are given for: a typical one, and one that fills the context. */
export function promptLengths({ decode }: Pick<SplitFacts, 'decode'>): number[] {
  const longest = Math.max(...decode.map(({ info }) => roomOf(info)));
  const typical = Math.min(TYPICAL_PROMPT_TOKENS, longest);
  return longest > typical * 1.5 ? [typical, longest] : [typical];
}

function roomOf({ contextTokens, kvBlocks, dpRanks, blockSize }: WorkerInfo): number {
  return Math.max(1, Math.min(contextTokens, kvBlocks * dpRanks * blockSize) - ANSWER_TOKENS);
}

function meanRunning(decode: readonly WorkerFact[]): number {
  const running = decode.reduce((sum, { load }) => sum + (load?.running ?? 0), 0);
  return Math.round(running / decode.length);
}
