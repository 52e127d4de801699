import { quantile } from '../chat-client.ts';
import type { LoopbackResult, ShapedMode, ShapedResult } from './cases.ts';

/** Something that the bench must reach. */
export interface Check {
  what: string;
  wanted: string;
  found: string;
  isMet: boolean;
}

/** Milliseconds that the experiment took for 351.75 MB, and how far from it counts as the same. */
const ONE_MS = 3_400;
const ONE_SHARE = 0.15;
const FOUR_MS = [12_000, 14_000] as const;
/** Of four that share a link fairly, the first is not much faster than the last. */
const FAIR_SHARE = 0.8;
const LINK_BYTES_PER_MS = 112_000;
const LINK_SHARE = 0.05;
const TTFT_SHARE = 1.1;
/** Below this difference a ratio of two times to a first token says nothing. */
const TTFT_SLACK_MS = 5;
const PREDICTED_SHARE = 0.1;

const isNear = (value: number, wanted: number, share: number): boolean =>
  Math.abs(value - wanted) <= wanted * share;

export function checkShaped(results: readonly ShapedResult[]): Check[] {
  const find = (mode: ShapedMode, inFlight: number): ShapedResult => {
    const own = results.filter((each) => each.mode === mode && each.inFlight === inFlight);
    const [longest] = own.toSorted((a, b) => b.promptTokens - a.promptTokens);
    if (longest === undefined) throw new Error(`nothing was measured in mode ${mode}`);
    return longest;
  };
  const [one, four] = [find('always', 1), find('always', 4)];
  const oneMs = quantile(one.transfer?.msByRound ?? [0], 0.5);
  const [leastMs, mostMs] = four.ttftRangeMs;
  const rate = four.transfer?.linkBytesPerMs ?? 0;
  const within = `3.4 s ± ${ONE_SHARE * 100} %`;
  const checks: Check[] = [
    {
      what: `transfer of ${megabytes(one.transfer?.bytesEach ?? 0)}, alone`,
      wanted: within,
      found: seconds(oneMs),
      isMet: isNear(oneMs, ONE_MS, ONE_SHARE),
    },
    {
      what: 'its time to the first token',
      wanted: within,
      found: seconds(one.ttftMs),
      isMet: isNear(one.ttftMs, ONE_MS, ONE_SHARE),
    },
    {
      // When the last ends is a matter of the link; how far the others are then, of chance among connections.
      what: 'the last of four such requests at once',
      wanted: `${seconds(FOUR_MS[0])} to ${seconds(FOUR_MS[1])}`,
      found: seconds(mostMs),
      isMet: mostMs >= FOUR_MS[0] && mostMs <= FOUR_MS[1],
    },
    {
      what: 'the first of them against the last',
      wanted: `at least ${FAIR_SHARE}`,
      found: (leastMs / mostMs).toFixed(2),
      isMet: leastMs / mostMs >= FAIR_SHARE,
    },
    {
      what: 'throughput of the link meanwhile',
      wanted: `112 MB/s ± ${LINK_SHARE * 100} %`,
      found: `${(rate / 1_000).toFixed(1)} MB/s`,
      isMet: isNear(rate, LINK_BYTES_PER_MS, LINK_SHARE),
    },
    ...checkPredictions(one, four),
  ];
  for (const auto of results.filter(({ mode }) => mode === 'auto')) {
    const never = results.find(
      ({ mode, words, inFlight }) =>
        mode === 'never' && words === auto.words && inFlight === auto.inFlight,
    );
    const limitMs = (never?.ttftMs ?? 0) * TTFT_SHARE + TTFT_SLACK_MS;
    checks.push({
      what: `auto, ${auto.promptTokens} tokens, ${auto.inFlight} at once: splits and time to the first token`,
      wanted: `0 of ${auto.requests}, at most ${limitMs.toFixed(0)} ms`,
      found: `${auto.splits} of ${auto.requests}, ${auto.ttftMs.toFixed(0)} ms`,
      isMet: auto.splits === 0 && auto.ttftMs <= limitMs,
    });
  }
  return checks;
}

/** A transfer that runs alone takes what was predicted; of four, the last is predicted to wait for the others. */
function checkPredictions(one: ShapedResult, four: ShapedResult): Check[] {
  const compare = (what: string, predictedMs: number, realMs: number): Check => ({
    what,
    wanted: `${seconds(realMs)} (measured) ± ${PREDICTED_SHARE * 100} %`,
    found: `${seconds(predictedMs)} (predicted)`,
    isMet: isNear(predictedMs, realMs, PREDICTED_SHARE),
  });
  const median = (values: readonly number[] | undefined): number => quantile(values ?? [0], 0.5);
  return [
    compare(
      'prediction for one alone',
      median(one.transfer?.predictedMsByRound),
      median(one.transfer?.msByRound),
    ),
    compare(
      'prediction for the last of four',
      median(four.transfer?.predictedMaxMsByRound),
      median(four.transfer?.msByRound),
    ),
  ];
}

export function checkLoopback(results: readonly LoopbackResult[]): Check[] {
  const checks: Check[] = [];
  for (const auto of results.filter(({ mode }) => mode === 'auto')) {
    const never = results.find(({ mode, running }) => mode === 'never' && running === auto.running);
    const neverMs = never?.ttftMs ?? 0;
    checks.push({
      what: `auto, slow prefill, ${auto.running} streams run: splits and time to the first token`,
      wanted: `${auto.requests} of ${auto.requests}, below ${neverMs.toFixed(0)} ms`,
      found: `${auto.splits} of ${auto.requests}, ${auto.ttftMs.toFixed(0)} ms`,
      isMet: neverMs > 1_000 && auto.splits === auto.requests && auto.ttftMs < neverMs,
    });
    if (auto.longestGapMs === undefined) continue;
    const neverGapMs = never?.longestGapMs ?? 0;
    checks.push({
      what: 'longest gap in the streams that run',
      wanted: `below ${neverGapMs.toFixed(0)} ms`,
      found: `${auto.longestGapMs.toFixed(0)} ms`,
      isMet: auto.longestGapMs < neverGapMs,
    });
  }
  return checks;
}

function seconds(value: number): string {
  return `${(value / 1_000).toFixed(2)} s`;
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
