import type { DecisionRecord, PolicyName, RouterEffect } from '@busbar/routing';
import { LateHistogram } from '@busbar/telemetry';
import { Counter, type Registry } from 'prom-client';
import { createSplitMetrics, type TransferredEffect } from './split-metrics.ts';
import { TRUTH_RANK } from './truth-board.ts';

type TruthEffect = Extract<RouterEffect, { kind: 'truth' }>;

/** Metrics that change with each decision. Those of the state are read at each scrape, see `state-metrics.ts`. */
export interface RouterMetrics {
  readonly decisionSeconds: LateHistogram;
  readonly convergenceSeconds: LateHistogram;
  onReply(outcome: string): void;
  onRecord(record: DecisionRecord): void;
  onTruth(effect: TruthEffect): void;
  onTransferred(effect: TransferredEffect): void;
  onUnheld(bookings: number): void;
  onBadFrame(subject: string): void;
}

const DECISION_BUCKETS = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 2e-2, 1e-1];
const CONVERGENCE_BUCKETS = [5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 1e-1, 5e-1, 1];

/** Registers the counters and histograms of `busbar_router_*`. */
export function createRouterMetrics(registry: Registry, policy: PolicyName): RouterMetrics {
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: string[] = []): Counter =>
    new Counter({ name: `busbar_router_${name}`, help, labelNames, registers });
  const decisions = counter('decisions_total', 'Answers to placement requests', [
    'policy',
    'outcome',
  ]);
  const promptTokens = counter('prompt_tokens_total', 'Prompt tokens of placed requests');
  const chosenBlocks = counter(
    'overlap_blocks_total',
    'Overlap of the chosen workers with the prompts',
  );
  const bestBlocks = counter(
    'best_overlap_blocks_total',
    'Largest overlap among the workers that could have been chosen',
  );
  const demotions = counter(
    'demotions_total',
    'Times that the cache of a worker was believed less, by the state that it fell to',
    ['to', 'cause'],
  );
  const split = createSplitMetrics(registry);
  const badFrames = counter('bad_frames_total', 'Messages that do not follow the protocol', [
    'subject',
  ]);
  const unheld = counter(
    'unheld_bookings_total',
    'Bookings released because their frontend does not hold them: messages about them were lost',
  );
  const placed = decisions.labels(policy, 'placed');
  return {
    decisionSeconds: new LateHistogram({
      name: 'busbar_router_decision_seconds',
      help: 'Time to decide on one request, with booking and answer',
      buckets: DECISION_BUCKETS,
      registers,
    }),
    convergenceSeconds: new LateHistogram({
      name: 'busbar_router_convergence_seconds',
      help: 'From a decision until its booking is heard on the bus, as by every other router',
      buckets: CONVERGENCE_BUCKETS,
      registers,
    }),
    onReply: (outcome) => {
      if (outcome === 'placed') placed.inc();
      else decisions.labels(policy, outcome).inc();
    },
    onRecord: ({ candidates, chosen, promptTokens: tokens, split: record }) => {
      if (record !== undefined) split.onRecord(record);
      let best = 0;
      for (const { workerId, overlapBlocks } of candidates) {
        if (overlapBlocks > best) best = overlapBlocks;
        if (workerId === chosen) chosenBlocks.inc(overlapBlocks);
      }
      bestBlocks.inc(best);
      promptTokens.inc(tokens);
    },
    onTransferred: (effect) => split.onTransferred(effect),
    onUnheld: (bookings) => unheld.inc(bookings),
    onBadFrame: (subject) => badFrames.labels(subject).inc(),
    onTruth: ({ from, to, cause }) => {
      if (TRUTH_RANK[to] < TRUTH_RANK[from]) demotions.labels(to, cause).inc();
    },
  };
}
