import type { Instance, WorkerLoad } from '@busbar/protocol';
import type { RouterWorker } from '../clients/admin-pages.ts';
import { count } from '../terminal/terminal.ts';
import type { Facts } from './facts.ts';
import type { Finding } from './finding.ts';

const group = 'KV events';

/** One finding for each worker: whether what its engine stores really reaches the routers. */
export function judgeKvEvents(facts: Facts): Finding[] {
  const findings: Finding[] = [];
  for (const instance of facts.cluster?.instances.values() ?? []) {
    if (instance.worker !== undefined) findings.push(judgeWorker(facts, instance));
  }
  return findings;
}

function judgeWorker(facts: Facts, instance: Instance): Finding {
  const { id } = instance;
  const load = facts.cluster?.loads.get(id);
  const silent = silence(facts, instance, load);
  const demoted = demotions(facts, id);
  if (silent !== undefined || demoted !== undefined) {
    return {
      group,
      name: id,
      verdict: 'fail',
      detail: [silent, demoted].filter((text) => text !== undefined).join('; '),
      advice:
        instance.worker?.kvEvents === false
          ? 'start it with KV events on (without --no-kv-events); until then the router guesses what the cache holds'
          : 'look at the log of the worker and of the router, then start the worker again',
    };
  }
  const blind = blindRouters(facts, id);
  if (blind !== undefined) {
    return { group, name: id, verdict: 'fail', detail: blind, advice: 'start that router again' };
  }
  const heard = facts.heardBatches.get(id) ?? 0;
  const detail =
    heard > 0
      ? `${batches(heard)} heard during the probe`
      : `nothing new during the probe; ${batches(load?.kvSequence ?? 0)} since its start`;
  return { group, name: id, verdict: 'ok', detail: `${detail}; ${indexed(facts, id)}` };
}

function batches(number: number): string {
  return number === 1 ? '1 batch' : `${count(number)} batches`;
}

function blocks(number: number): string {
  return number === 1 ? '1 block' : `${count(number)} blocks`;
}

/** Why nothing can be heard from this worker; undefined when it speaks. */
function silence(
  facts: Facts,
  instance: Instance,
  load: WorkerLoad | undefined,
): string | undefined {
  if (instance.worker?.kvEvents === false) return 'the engine runs without KV events';
  if (load === undefined) return 'no heartbeat was heard from it';
  const stored = facts.storedAfter.get(instance.id) ?? load.storedBlocksTotal;
  const grown = stored - load.storedBlocksTotal;
  const heard = facts.heardBatches.get(instance.id) ?? 0;
  // Some engines count what a request stored at its end, so that of one that ran before the probe may have been told before.
  if (grown > 0 && heard === 0 && load.running === 0) {
    return `it stored ${blocks(grown)} during the probe and sent no event`;
  }
  if (heard === 0 && load.storedBlocksTotal > 0 && load.kvSequence === 0) {
    return `it stored ${blocks(load.storedBlocksTotal)} and never sent an event`;
  }
  return undefined;
}

/** Policies that choose by KV events; the others do not mind what a worker says. */
const EVENT_POLICIES: readonly string[] = ['predictive', 'kv'];

/** Routers that should believe the worker's events and do not. */
function demotions(facts: Facts, workerId: string): string | undefined {
  if (facts.policy !== undefined && !EVENT_POLICIES.includes(facts.policy)) return undefined;
  const texts = seenBy(facts, workerId)
    .filter(([, seen]) => seen.truth !== 'events')
    .map(([routerId, seen]) => `${routerId} routes to it as ${seen.truth}: ${seen.reason}`);
  return texts.length === 0 ? undefined : texts.join('; ');
}

/** Routers that do not know the worker at all. */
function blindRouters(facts: Facts, workerId: string): string | undefined {
  const blind = [...facts.routerWorkers]
    .filter(([, workers]) => workers.every((seen) => seen.workerId !== workerId))
    .map(([routerId]) => routerId);
  return blind.length === 0 ? undefined : `${blind.join(', ')} does not know this worker`;
}

function indexed(facts: Facts, workerId: string): string {
  const seen = seenBy(facts, workerId).map(
    ([routerId, worker]) => `${blocks(worker.indexedBlocks)} known to ${routerId}`,
  );
  return seen.length === 0 ? 'no router told what it knows' : seen.join(', ');
}

function seenBy(facts: Facts, workerId: string): [string, RouterWorker][] {
  return [...facts.routerWorkers].flatMap(([routerId, workers]) =>
    workers
      .filter((seen) => seen.workerId === workerId)
      .map((seen): [string, RouterWorker] => [routerId, seen]),
  );
}
