import { type LinkRecord, PROTOCOL_VERSION, type WorkerInfo } from '@busbar/protocol';
import type { SplitRecord } from '@busbar/routing';
import { bytes, count, duration, linkRate } from '../terminal/terminal.ts';
import type { Facts } from './facts.ts';
import type { Finding } from './finding.ts';
import { predictSplit } from './predict-split.ts';
import { modelsOf, promptLengths, type SplitFacts } from './split-facts.ts';

const group = 'disaggregation';
const name = 'disaggregation here';

/** How many requests a busy decode worker is taken to run. */
const BUSY_REQUESTS = 16;
/** Range in which a link rate is looked for: 1 MB/s to 1 TB/s. */
const SLOWEST_BYTES_PER_MS = 1e3;
const FASTEST_BYTES_PER_MS = 1e9;
const SEARCH_STEPS = 40;

/** One line for each model: whether the split of prefill and decode pays with these workers and links, and why. */
export function judgeSplit(facts: Facts): Finding[] {
  return modelsOf(facts).map((split) => ({
    group,
    name,
    verdict: 'ok',
    detail: split.prefill.length > 0 ? withPool(split) : withoutPool(split),
  }));
}

function withPool(split: SplitFacts): string {
  const records = promptLengths(split).flatMap((tokens) => {
    const record = predictSplit(split, tokens);
    return record === undefined ? [] : [{ tokens, record }];
  });
  if (records.length === 0) return 'cannot be said: no decode worker can take a prompt now';
  const paying = records.filter(({ record }) => record.isSplit);
  const first = records[0]!.record;
  if (first.pair === undefined) return `does not pay, because ${lowered(first.reason)}`;
  const word =
    paying.length === records.length
      ? 'pays'
      : paying.length === 0
        ? 'does not pay'
        : `pays for prompts of ${paying.map(({ tokens }) => count(tokens)).join(' and ')} tokens only`;
  const figures = records.map(
    ({ tokens, record }) =>
      `${count(tokens)} tokens: ${compared(record)}${missing(split, tokens, record)}`,
  );
  return `${word}, because of ${figures.join('; ')} (${busy(split.running)})`;
}

function compared({ local, pair }: SplitRecord): string {
  const whole = `${duration(local.totalMs)} on ${local.workerId}`;
  if (pair === undefined) return whole;
  const way = `${bytes(pair.bytes)} at ${linkRate(pair.bytesPerMs)}${pair.source === 'assumed' ? ' (assumed)' : ''} = ${duration(pair.bytes / pair.bytesPerMs)}`;
  return `${whole}, ${duration(pair.totalMs)} by ${pair.prefillWorkerId}, of which ${way} on the link`;
}

/** How fast the links would have to be for a prompt that they are too slow for. */
function missing(split: SplitFacts, promptTokens: number, { isSplit }: SplitRecord): string {
  if (isSplit) return '';
  const bytesPerMs = slowestPaying(split, promptTokens);
  return bytesPerMs === undefined
    ? ', and would pay on no link'
    : `, and would pay from ${linkRate(bytesPerMs)}`;
}

function busy(running: number): string {
  if (running === 0) return 'decode workers idle now';
  return running === 1
    ? '1 request runs on each now'
    : `${count(running)} requests run on each now`;
}

/** What a prefill worker like the first decode worker would change, and on which link. */
function withoutPool(split: SplitFacts): string {
  const [model] = split.decode;
  const transfer = model?.info.transfer;
  if (model === undefined || transfer === undefined) {
    return 'does not pay, because there is no prefill worker, and decode workers tell no way to exchange KV (vLLM has one with --kv-connector)';
  }
  const prefill = {
    ...model,
    id: 'imagined',
    info: { ...model.info, role: 'prefill' } satisfies WorkerInfo,
    load: undefined,
  };
  const imagined = { ...split, decode: [model], prefill: [prefill] };
  const texts = promptLengths(split).map((tokens) => {
    const idle = slowestPaying({ ...imagined, running: 0 }, tokens);
    const loaded = slowestPaying({ ...imagined, running: BUSY_REQUESTS }, tokens);
    return `${count(tokens)} tokens (${bytes(tokens * transfer.kvBytesPerToken)}) ${neededRate(idle)} while nothing runs, ${neededRate(loaded)} while ${BUSY_REQUESTS} requests decode`;
  });
  return `does not pay, because there is no prefill worker; one like ${model.id} would pay for ${texts.join('; for ')}`;
}

function neededRate(bytesPerMs: number | undefined): string {
  return bytesPerMs === undefined ? 'on no link' : `from ${linkRate(bytesPerMs)}`;
}

/** The slowest link on which the router splits this prompt; undefined when it does on none. */
function slowestPaying(split: SplitFacts, promptTokens: number): number | undefined {
  const paysAt = (bytesPerMs: number): boolean =>
    predictSplit({ ...split, links: imaginedLinks(split, bytesPerMs) }, promptTokens)?.isSplit ===
    true;
  if (!paysAt(FASTEST_BYTES_PER_MS)) return undefined;
  let slow = SLOWEST_BYTES_PER_MS;
  let fast = FASTEST_BYTES_PER_MS;
  if (paysAt(slow)) return slow;
  for (let step = 0; step < SEARCH_STEPS; step++) {
    const middle = Math.sqrt(slow * fast);
    if (paysAt(middle)) fast = middle;
    else slow = middle;
  }
  return fast;
}

function imaginedLinks({ decode, prefill }: SplitFacts, bytesPerMs: number): LinkRecord[] {
  return prefill.flatMap((from) =>
    decode.map((to) => ({
      protocol: PROTOCOL_VERSION,
      prefillWorkerId: from.id,
      decodeWorkerId: to.id,
      transferProtocol: to.info.transfer?.protocol ?? 'tcp',
      transfers: 1,
      failures: 0,
      bytesTotal: 1,
      busyMsTotal: 1,
      bytesPerMs,
      latencyMs: 1,
      source: 'transfers',
      updatedAt: '',
    })),
  );
}

function lowered(sentence: string): string {
  return sentence.charAt(0).toLowerCase() + sentence.slice(1);
}
