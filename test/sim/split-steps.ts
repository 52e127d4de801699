import { SplitStack } from '@busbar/frontend/testing';
import type { MockDelta } from '@busbar/mocker';
import type { LifeEvent, RouteReply, RouteRequest } from '@busbar/protocol';
import {
  DEFAULT_TIMING,
  EventHeap,
  type FrontendWorker,
  type KvPart,
  SimFrontend,
} from '@busbar/simulator';

/** What a worker does with the work that it is given next. */
export type Fault = 'none' | 'refuse' | 'error' | 'kv-lost' | 'die';

export interface Plan {
  prefill: readonly Fault[];
  decode: readonly Fault[];
  onFailure: 'prefill-locally' | 'fail';
}

/** Everything that a frontend said and asked for one request. */
export interface Steps {
  /** Placements asked for: who was excluded, and whether one worker must do it all. */
  routes: string[];
  /** Work that was sent, in order: to whom, and as which part of a split. */
  works: string[];
  /** What routers heard of each booking, by decision. */
  bookings: Record<string, string[]>;
  /** Prefill legs that were stopped or whose KV was given up, by their order. */
  givenUp: number[];
}

const DECODERS = ['decode-1', 'decode-2'];
const PREFILLER = 'prefill-1';
/** As the scripted workers of the live frontend report it. */
const CACHED_TOKENS = 3;

function routeOf({ excluded = [], isWhole = false }: RouteRequest): string {
  return `not ${excluded.join(' ') || 'any'}${isWhole ? ', whole' : ''}`;
}

function record(bookings: Steps['bookings'], event: LifeEvent): void {
  if (event.kind === 'booked') return;
  const cached = event.cachedTokens === undefined ? '' : `, ${event.cachedTokens} cached`;
  const text =
    event.kind === 'firstToken' ? 'first token' : `${event.outcome} of ${event.outputTokens}`;
  (bookings[event.decisionId] ??= []).push(text + cached);
}

/** The live frontend, over HTTP and an in-memory bus. */
export async function liveSteps(plan: Plan): Promise<Steps> {
  const faults = { prefill: [...plan.prefill], decode: [...plan.decode] };
  const works: string[] = [];
  const legs: number[] = [];
  const steps: Steps = { routes: [], works, bookings: {}, givenUp: [] };
  await SplitStack.with(async (stack) => {
    const next = stack.route;
    stack.route = (request) => {
      const reply = next?.(request);
      if (reply === undefined || reply instanceof Promise || reply.kind !== 'place') return reply;
      return reply.prefill === undefined
        ? reply
        : { ...reply, prefill: { ...reply.prefill, onFailure: plan.onFailure } };
    };
    for (const worker of [...stack.workers, stack.prefiller]) {
      const current = new Map<number, Fault>();
      worker.ack = ({ streamId, stageKv, kvSource }) => {
        const isLeg = stageKv !== undefined;
        if (isLeg) legs.push(streamId);
        const part = isLeg ? 'stage' : kvSource === undefined ? 'whole' : 'fetch';
        works.push(`${worker.id} ${part}`);
        const fault = (isLeg ? faults.prefill : faults.decode).shift() ?? 'none';
        current.set(streamId, fault);
        if (fault !== 'refuse') return { kind: 'accepted' };
        return { kind: 'refused', code: 'WORKER_FULL', message: 'no', retryable: true };
      };
      worker.script = async (own, header) => {
        const { streamId } = header;
        const fault = current.get(streamId);
        const code = fault === 'kv-lost' ? 'WORKER_KV_LOST' : 'WORKER_FAULT';
        if (fault === 'die') await own.kill();
        else if (fault === 'error' || fault === 'kv-lost') {
          // What failed says nothing of its cache.
          own.isLateWithCached = true;
          own.emit(streamId, '', 'error', { error: { code, message: 'x', retryable: true } });
          own.isLateWithCached = false;
        } else if (header.stageKv !== undefined) own.stage(streamId);
        else await stack.fetchAndSay(own, header);
      };
    }
    await (await stack.chat()).text();
    await stack.settled(3_000);
    steps.routes = stack.routed.map(({ request }) => routeOf(request));
    for (const event of stack.life) record(steps.bookings, event);
    steps.givenUp = legs.flatMap((id, i) => (stack.prefiller.cancelled.includes(id) ? [i] : []));
  });
  return steps;
}

/** The frontend of the simulator, among the same workers under a virtual clock. */
export function simulatedSteps(plan: Plan): Steps {
  const faults = { prefill: [...plan.prefill], decode: [...plan.decode] };
  const heap = new EventHeap();
  const steps: Steps = { routes: [], works: [], bookings: {}, givenUp: [] };
  const legs: number[] = [];
  let decisions = 0;
  const worker = (id: string): FrontendWorker & { isAlive: boolean } => {
    const submit = (key: number, _request: unknown, _names: unknown, part?: KvPart): boolean => {
      const isLeg = part?.kind === 'stage';
      if (isLeg) legs.push(key);
      steps.works.push(`${id} ${part?.kind ?? 'whole'}`);
      const fault = (isLeg ? faults.prefill : faults.decode).shift() ?? 'none';
      if (fault === 'refuse') return false;
      if (fault === 'die') {
        own.isAlive = false;
        heap.after(DEFAULT_TIMING.detectMs, () => frontend.onWorkerSilent(id));
      } else {
        heap.after(1, () => frontend.onDeltas({ id }, deltasOf(key, fault, isLeg)));
      }
      return true;
    };
    const abort = (key: number): void => {
      const leg = own.isAlive ? legs.indexOf(key) : -1;
      if (leg >= 0) steps.givenUp.push(leg);
    };
    const own = { isAlive: true, submit, abort };
    return own;
  };
  const workers = new Map([...DECODERS, PREFILLER].map((id) => [id, worker(id)]));
  const place = (workerId: string, { isWhole, kvAt }: RouteRequest): RouteReply => {
    const booking = (id: string) => {
      return { decisionId: `d${++decisions}`, workerId: id, expectedCachedTokens: 0 };
    };
    const reply = { kind: 'place' as const, routerId: 'router-1', ...booking(workerId) };
    if (isWhole === true) return reply;
    if (kvAt !== undefined) return { ...reply, kvAt };
    return { ...reply, prefill: { ...booking(PREFILLER), onFailure: plan.onFailure } };
  };
  const frontend: SimFrontend = new SimFrontend({
    heap,
    timing: DEFAULT_TIMING,
    model: 'm',
    blockSize: 4,
    worker: (id) => workers.get(id),
    ended: () => {},
    routers: [
      {
        request: (key, request) => {
          steps.routes.push(routeOf(request));
          const id = DECODERS.find((name) => request.excluded?.includes(name) !== true);
          const reply: RouteReply =
            id === undefined
              ? { kind: 'reject', code: 'ROUTER_NO_WORKERS', message: 'none' }
              : place(id, request);
          heap.after(DEFAULT_TIMING.hopMs, () => frontend.onReply(key, reply));
        },
        life: (_, messages) => {
          for (const { event } of messages) record(steps.bookings, event);
        },
      },
    ],
  });
  const tokens = Uint32Array.from({ length: 20 }, (_, i) => i + 10);
  const rest = { maxTokens: 8, ignoreEos: false, seed: 1, isRepeat: false, tag: 0 };
  frontend.accept({ tokens, ...rest });
  while (heap.step());
  return steps;
}

function deltasOf(key: number, fault: Fault, isLeg: boolean): MockDelta[] {
  if (fault === 'error' || fault === 'kv-lost') {
    const code = fault === 'kv-lost' ? 'WORKER_KV_LOST' : 'WORKER_FAULT';
    return [{ key, tokens: [], finish: 'error', error: { code, message: 'x', retryable: true } }];
  }
  const first = { key, tokens: [1], cachedTokens: CACHED_TOKENS };
  if (isLeg) return [{ ...first, finish: 'length' }];
  return [
    { ...first, finish: 'none' },
    { key, tokens: [2], finish: 'none' },
    { key, tokens: [3], finish: 'stop' },
  ];
}
