import { createRng } from '@busbar/base';
import type { WorkerInfo, WorkerLoad } from '@busbar/protocol';
import {
  createRouterCore,
  type PairView,
  ROUTER_DEFAULTS,
  type RouterCore,
  type SplitRecord,
} from '@busbar/routing';
import type { SplitFacts } from './split-facts.ts';

const OUTPUT_TOKENS = 64;
const NOW_MS = 0;
const NONE = new Uint32Array(0);

/**
 * What a router with these facts decides of a prompt that no cache holds, in mode `auto`: the router's own core is asked, so that
 * this cannot disagree with it. Undefined when no decode worker can take the prompt.
 */
export function predictSplit(facts: SplitFacts, promptTokens: number): SplitRecord | undefined {
  const [first] = facts.decode;
  if (first === undefined) return undefined;
  const { model, blockSize } = first.info;
  const effects = coreOf(facts).onRequest(
    {
      key: 1,
      request: {
        model,
        frontendId: 'doctor',
        promptTokens,
        maxTokens: OUTPUT_TOKENS,
        deadlineMs: 1,
      },
      hashes: newChain(Math.floor(promptTokens / blockSize)),
    },
    NOW_MS,
  );
  for (const effect of effects) if (effect.kind === 'reply') return effect.record?.split;
  return undefined;
}

/** Every prefill worker with every decode worker of its model, as a router with these facts sees them. */
export function pairsOf(facts: SplitFacts): PairView[] {
  return coreOf(facts).pairs(NOW_MS);
}

function coreOf({ decode, prefill, links, running }: SplitFacts): RouterCore {
  const core = createRouterCore(
    { ...ROUTER_DEFAULTS, routerId: 'doctor', policy: 'predictive' },
    createRng(1),
  );
  for (const { id, epoch, info, load } of [...decode, ...prefill]) {
    core.onWorkerJoined(id, epoch, info, NOW_MS);
    core.onKvSnapshot(id, { epoch, sequence: load?.kvSequence ?? 0, parts: [] }, NOW_MS);
    core.onLoad(id, load ?? idle(epoch, info), NOW_MS);
  }
  for (const link of links) core.onLink(link, NOW_MS);
  for (const { id } of decode) {
    for (let i = 0; i < running; i++) bookDecode(core, id, `${id}.${i}`);
  }
  return core;
}

/** A request that is past its prefill: its tokens wait whenever another prompt is computed. */
function bookDecode(core: RouterCore, workerId: string, decisionId: string): void {
  const common = { decisionId, workerId };
  core.onLife(
    'doctor',
    {
      kind: 'booked',
      ...common,
      routerId: 'another',
      promptTokens: 1,
      maxTokens: OUTPUT_TOKENS,
      expectedCachedTokens: 0,
      blocks: 0,
    },
    NONE,
    NOW_MS,
  );
  core.onLife(
    'doctor',
    { kind: 'firstToken', ...common, cachedTokens: 0, ttftMs: 0 },
    NONE,
    NOW_MS,
  );
}

function idle(epoch: number, info: WorkerInfo): WorkerLoad {
  return {
    epoch,
    state: 'ready',
    running: 0,
    waiting: 0,
    waitingPrefillTokens: 0,
    freeBlocks: info.kvBlocks,
    activeBlocks: 0,
    kvBlocks: info.kvBlocks,
    decodeStepMs: 0,
    prefillTokensPerMs: 0,
    kvSequence: 0,
    storedBlocksTotal: 0,
  };
}

function newChain(blocks: number): Uint32Array {
  const rng = createRng(2);
  return Uint32Array.from({ length: blocks * 2 }, () => rng.u32());
}
