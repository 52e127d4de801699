import type { PairView } from '@busbar/routing';
import { bytes, count, duration, linkRate } from '../terminal/terminal.ts';
import type { Facts } from './facts.ts';
import type { Finding } from './finding.ts';
import { pairsOf } from './predict-split.ts';
import { modelsOf, promptLengths, type SplitFacts } from './split-facts.ts';

const group = 'KV transfer';

/** Share of failed transfers above which a link counts as broken. */
const FAILED_RATIO = 0.1;

/** The way of KV from each prefill to each decode worker: whether there is one, how fast it is, and what that means. */
export function judgeTransfer(facts: Facts): Finding[] {
  return [...modelsOf(facts).flatMap((split) => judgeModel(facts, split)), ...judgeStrict(facts)];
}

function judgeModel(facts: Facts, split: SplitFacts): Finding[] {
  const pairs = pairsOf(split);
  const lonely = split.prefill.filter(({ id }) =>
    pairs.every((pair) => pair.prefillWorkerId !== id || pair.refusal !== undefined),
  );
  return [
    ...pairs.map((pair) => judgePair(pair, split, avoidedBy(facts, pair))),
    ...lonely.map(
      ({ id }): Finding => ({
        group,
        name: id,
        verdict: 'fail',
        detail: 'no decode worker can use what it computes, so it serves nobody',
        advice:
          'give both pools the same engine version, model path, block size and KV connector (above: what differs)',
      }),
    ),
  ];
}

function judgePair(pair: PairView, split: SplitFacts, avoiders: readonly string[]): Finding {
  const name = `${pair.prefillWorkerId} → ${pair.decodeWorkerId}`;
  if (pair.refusal !== undefined) {
    return {
      group,
      name,
      verdict: 'warn',
      detail: `refused: ${pair.refusal}`,
      advice: 'requests are never split between these two',
    };
  }
  if (!pair.isProven) {
    const last =
      pair.lastFailure === undefined ? '' : `, and the last try failed: ${pair.lastFailure}`;
    return {
      group,
      name,
      verdict: 'warn',
      detail: `no KV came over it yet${last}`,
      advice: `requests are split over it once ${pair.decodeWorkerId} has fetched a block; the first connection of two engines takes up to a minute`,
    };
  }
  if (isBroken(pair)) {
    return {
      group,
      name,
      verdict: 'fail',
      detail: `${count(pair.failures)} of ${count(pair.failures + pair.transfers)} transfers failed, the last: ${pair.lastFailure ?? 'for a reason that was not told'}`,
      advice: `look at the log of ${pair.decodeWorkerId}, and whether its machine reaches the address that ${pair.prefillWorkerId} gives (BUSBAR_TRANSFER_HOST, loopback by default)`,
    };
  }
  if (avoiders.length > 0) {
    return {
      group,
      name,
      verdict: 'warn',
      detail: `${avoiders.join(', ')} splits no request over it for some seconds: transfers failed just now, the last: ${pair.lastFailure ?? 'for a reason that was not told'}`,
      advice: `look at the logs of ${pair.prefillWorkerId} and ${pair.decodeWorkerId}`,
    };
  }
  const failed =
    pair.failures === 0
      ? 'none failed'
      : `${count(pair.failures)} failed, the last: ${pair.lastFailure ?? 'unknown'}`;
  const basis = {
    transfers: `by ${pair.transfers === 1 ? '1 transfer' : `${count(pair.transfers)} transfers`}, ${failed}`,
    probe: 'by a probe, no transfer yet',
    sibling: 'of another link between the same machines; nothing measured here yet',
    assumed: 'assumed; nothing measured yet',
  }[pair.source];
  return {
    group,
    name,
    verdict: pair.source === 'assumed' || pair.failures > 0 ? 'warn' : 'ok',
    detail: `${linkRate(pair.bytesPerMs)} ${basis}${prompts(pair, split)}`,
    ...(pair.source === 'assumed'
      ? { advice: 'it is probed before its first use; send a request, then look again' }
      : {}),
  };
}

/** Routers that were let down by this pair a moment ago. */
function avoidedBy({ routerLinks }: Facts, pair: PairView): string[] {
  return [...routerLinks].flatMap(([routerId, links]) =>
    links.some(
      (link) =>
        link.prefillWorkerId === pair.prefillWorkerId &&
        link.decodeWorkerId === pair.decodeWorkerId &&
        link.suspectForMs !== undefined,
    )
      ? [routerId]
      : [],
  );
}

function isBroken({ failures, transfers }: PairView): boolean {
  return failures > 0 && failures / (failures + transfers) > FAILED_RATIO;
}

/** `; 1,500 tokens are 172 MB: 1.5 s`: bytes divided by the throughput, which is what a split adds to the first token. */
function prompts({ decodeWorkerId, bytesPerMs, latencyMs }: PairView, split: SplitFacts): string {
  const transfer = split.decode.find(({ id }) => id === decodeWorkerId)?.info.transfer;
  if (transfer === undefined || bytesPerMs === 0) return '';
  return promptLengths(split)
    .map((tokens) => {
      const size = tokens * transfer.kvBytesPerToken;
      return `; ${count(tokens)} tokens are ${bytes(size)}: ${duration(size / bytesPerMs + latencyMs)}`;
    })
    .join('');
}

/** Modes that must split, told to refuse what they cannot: without a prefill worker they refuse everything. */
function judgeStrict({ disaggregation, cluster }: Facts): Finding[] {
  if (disaggregation === undefined || !disaggregation.isStrict) return [];
  if (disaggregation.mode !== 'always' && disaggregation.mode !== 'threshold') return [];
  const hasPrefill = [...(cluster?.instances.values() ?? [])].some(
    (instance) => instance.worker?.role === 'prefill',
  );
  if (hasPrefill) return [];
  return [
    {
      group,
      name: 'strict mode',
      verdict: 'fail',
      detail: `disaggregation is ${disaggregation.mode} and strict, and no prefill worker is here: what must be split is refused with 503`,
      advice: 'start prefill workers (--prefill 1), or leave out --disaggregation-strict',
    },
  ];
}
