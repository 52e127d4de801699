/** Router decisions on prompts of 1,600 tokens: match, cost, booking, reply, record. `node test/bench/micro/routing.bench.ts` */
import { createRng } from '@busbar/base';
import type { LifeEvent, RouteRequest, WorkerInfo, WorkerLoad } from '@busbar/protocol';
import {
  createRouterCore,
  type PolicyName,
  ROUTER_DEFAULTS,
  type RouterCore,
} from '@busbar/routing';
import { repeat, report } from './measure.ts';
function timeMs(run: () => void): number { const s = process.threadCpuUsage(); run(); const e = process.threadCpuUsage(s); return (e.user + e.system) / 1000; }

const BLOCK_SIZE = 16;
const PROMPT_BLOCKS = 100;
const PREFIX_BLOCKS = 96;
const PROMPT_TOKENS = PROMPT_BLOCKS * BLOCK_SIZE;
/** Prompts that are asked, and blocks in all caches together, whatever the number of workers. */
const HOT_PROMPTS = 400;
const INDEXED_BLOCKS = 100_000;
const DECISIONS = 5_000;
const REPETITIONS = 25;
/** Requests in flight for each worker: a decision is taken while others run. */
const IN_FLIGHT = 8;

const info: WorkerInfo = {
  model: 'm',
  engine: 'mock',
  engineVersion: '1',
  blockSize: BLOCK_SIZE,
  kvBlocks: 125_000,
  role: 'decode',
  dpRanks: 1,
  contextTokens: 32_768,
  maxRunning: 256,
  kvEvents: true,
  prefillTokensPerMs: 20,
  decodeStepMs: 13,
};
const load: WorkerLoad = {
  epoch: 1,
  state: 'ready',
  running: 0,
  waiting: 0,
  waitingPrefillTokens: 0,
  freeBlocks: 0,
  activeBlocks: 0,
  kvBlocks: info.kvBlocks,
  decodeStepMs: 13,
  prefillTokensPerMs: 20,
  kvSequence: 0,
  storedBlocksTotal: 0,
};
const rng = createRng(2026);

interface Bench {
  core: RouterCore;
  prompts: Uint32Array<ArrayBuffer>[];
}

function words(blocks: number): Uint32Array<ArrayBuffer> {
  return Uint32Array.from({ length: blocks * 2 }, () => rng.u32());
}

/** Workers whose caches hold prefixes, and prompts that go on from some of them. */
function build(policy: PolicyName, workers: number): Bench {
  const core = createRouterCore(
    {
      ...ROUTER_DEFAULTS,
      routerId: 'r',
      policy,
      queueLimit: 4096,
      queueWaitMs: 1000,
      loadSilenceMs: 1e9,
      bookingTtlMs: 1e9,
      approximateTtlMs: 1e9,
      eventGraceMs: 1e9,
    },
    createRng(1),
  );
  const prompts = Array.from({ length: HOT_PROMPTS }, () => words(PROMPT_BLOCKS));
  for (let worker = 0; worker < workers; worker++) {
    const id = `worker-${worker}`;
    core.onWorkerJoined(id, 1, info, 0);
    core.onLoad(id, load, 0);
    core.onKvSnapshot(id, { epoch: 1, sequence: 0, parts: [] }, 0);
    const held = prompts
      .filter((_, i) => i % workers === worker)
      .map((prompt) => prompt.slice(0, PREFIX_BLOCKS * 2));
    const chains = INDEXED_BLOCKS / workers / PREFIX_BLOCKS;
    while (held.length < chains) held.push(words(PREFIX_BLOCKS));
    const changes = held.map((hashes) => ({ kind: 'stored' as const, hashes }));
    core.onKv(id, { epoch: 1, sequence: 1, dpRank: 0, tier: 'device', changes }, 0);
  }
  return { core, prompts };
}

/** Microseconds per decision; the life of each request follows when `IN_FLIGHT` per worker are under way. */
function decideUs({ core, prompts }: Bench, workers: number): number {
  const drawn = repeat(DECISIONS, () => rng.int(prompts.length));
  const open: { decisionId: string; workerId: string }[] = [];
  const request: RouteRequest = {
    model: 'm',
    frontendId: 'f',
    promptTokens: PROMPT_TOKENS,
    maxTokens: 64,
    deadlineMs: 1000,
  };
  let spentMs = 0;
  for (let at = 0; at < DECISIONS; at += 50) {
    spentMs += timeMs(() => {
      for (const i of drawn.slice(at, at + 50)) {
        const [effect] = core.onRequest({ key: i, request, hashes: prompts[i]! }, 1);
        if (effect?.kind === 'reply' && effect.reply.kind === 'place') open.push(effect.reply);
      }
    });
    while (open.length > IN_FLIGHT * workers) end(core, open.shift()!);
  }
  for (const placed of open) end(core, placed);
  return (spentMs * 1e3) / DECISIONS;
}

function end(core: RouterCore, { decisionId, workerId }: { decisionId: string; workerId: string }) {
  const none = new Uint32Array(0);
  const first: LifeEvent = {
    kind: 'firstToken',
    decisionId,
    workerId,
    cachedTokens: PREFIX_BLOCKS * BLOCK_SIZE,
    ttftMs: 20,
  };
  core.onLife('f', first, none, 1);
  const ended = { kind: 'ended' as const, outcome: 'completed' as const, outputTokens: 64 };
  core.onLife('f', { ...ended, decisionId, workerId }, none, 1);
}

/** Million stored blocks per second through the core: sequence check, truth, index. */
function applyMblocksPerSec(): number {
  const { core } = build('predictive', 8);
  const batches = Array.from({ length: 10_000 }, (_, i) => ({
    workerId: `worker-${i % 8}`,
    batch: {
      epoch: 1,
      sequence: 2 + Math.floor(i / 8),
      dpRank: 0,
      tier: 'device' as const,
      changes: [{ kind: 'stored' as const, hashes: words(PROMPT_BLOCKS) }],
    },
  }));
  const ms = timeMs(() => {
    for (const { workerId, batch } of batches) core.onKv(workerId, batch, 1);
  });
  return (batches.length * PROMPT_BLOCKS) / ms / 1e3;
}

for (const policy of ['predictive'] as const) {
  for (const workers of [8, 64]) {
    const bench = build(policy, workers);
    decideUs(bench, workers);
    const us = repeat(REPETITIONS, () => decideUs(bench, workers));
    report(`decision ${policy} at ${workers} workers`, 'us', us);
    bench.core.checkInvariants();
  }
}
