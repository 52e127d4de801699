import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { StreamDelta, WorkAck, WorkHeader } from '@busbar/protocol';
import fc from 'fast-check';
import { SplitStack } from './scripted-split.testing.ts';
import type { ScriptedWorker } from './scripted-stack.testing.ts';

const PREFILL_FAULTS = [
  'none',
  'full',
  'bad-request',
  'no-ack',
  'silent',
  'fault',
  'stopped',
  'not-staged',
  'gap',
  'end-lost',
  'late',
] as const;
const DECODE_FAULTS = [
  'none',
  'full',
  'bad-request',
  'no-ack',
  'silent',
  'fault',
  'final-fault',
  'stopped',
  'kv-lost',
  'gap',
  'token-then-fault',
  'token-then-silent',
  'no-token',
] as const;
type Fault = (typeof PREFILL_FAULTS)[number] | (typeof DECODE_FAULTS)[number];

/** What happens to one request, attempt by attempt; workers know it by its salt. */
interface Plan {
  prefill: Fault[];
  decode: Fault[];
  onFailure: 'prefill-locally' | 'fail';
  isStream: boolean;
  routeMs: number;
  /** When the client leaves, at the latest. */
  leavesMs: number;
}

const plan: fc.Arbitrary<Plan> = fc.record({
  prefill: fc.array(fc.constantFrom(...PREFILL_FAULTS), { maxLength: 3 }),
  decode: fc.array(fc.constantFrom(...DECODE_FAULTS), { maxLength: 3 }),
  onFailure: fc.constantFrom('prefill-locally', 'fail'),
  isStream: fc.boolean(),
  routeMs: fc.integer({ min: 0, max: 4 }),
  leavesMs: fc.constantFrom(0, 1, 2, 4, 8, 16, 100, 100, 100),
});

/** Makes the workers of a stack follow plans. */
class Saboteur {
  readonly plans = new Map<string, Plan>();
  readonly #stack: SplitStack;
  readonly #current = new Map<number, Fault>();

  constructor(stack: SplitStack) {
    this.#stack = stack;
    for (const worker of [...stack.workers, stack.prefiller]) {
      worker.ack = (header) => this.#ack(header);
      worker.script = (_, header) => this.#run(worker, header);
    }
  }

  #ack(header: WorkHeader): WorkAck | undefined {
    const own = this.plans.get(header.cacheSalt ?? '');
    const faults = header.stageKv === undefined ? own?.decode : own?.prefill;
    const fault = faults?.shift() ?? 'none';
    this.#current.set(header.streamId, fault);
    if (fault === 'no-ack') return undefined;
    if (fault === 'full') return refusal('WORKER_FULL', true);
    if (fault === 'bad-request') return refusal('WORKER_BAD_REQUEST', false);
    return { kind: 'accepted' };
  }

  async #run(worker: ScriptedWorker, header: WorkHeader): Promise<void> {
    const { streamId } = header;
    const fault = this.#current.get(streamId) ?? 'none';
    if (fault === 'silent') return;
    if (fault === 'late') await sleep(20);
    if (fault === 'fault') return worker.emit(streamId, '', 'error', failure('X', true));
    if (fault === 'stopped') return worker.emit(streamId, '', 'cancelled');
    if (fault === 'gap') return worker.send(header.frontendId, [{ ...gap, streamId }]);
    if (header.stageKv !== undefined) this.#prefill(worker, streamId, fault);
    else await this.#decode(worker, header, fault);
  }

  #prefill(worker: ScriptedWorker, streamId: number, fault: Fault): void {
    if (fault === 'not-staged') worker.emit(streamId, 'p', 'length');
    else if (fault === 'end-lost') {
      worker.staged.add(streamId);
      worker.loseBatch();
    } else worker.stage(streamId);
  }

  async #decode(worker: ScriptedWorker, header: WorkHeader, fault: Fault): Promise<void> {
    const { streamId } = header;
    await sleep(1);
    if (worker.cancelled.includes(streamId)) return;
    if (fault === 'final-fault') return worker.emit(streamId, '', 'error', failure('X', false));
    const isLost = fault === 'kv-lost' || !this.#stack.fetch(header);
    if (isLost) return worker.emit(streamId, '', 'error', failure('WORKER_KV_LOST', true));
    if (fault === 'no-token') return worker.emit(streamId, '', 'stop');
    worker.emit(streamId, 'a');
    if (fault === 'token-then-silent') return;
    await sleep(1);
    if (worker.cancelled.includes(streamId)) return;
    if (fault === 'token-then-fault') worker.emit(streamId, '', 'error', failure('X', true));
    else worker.emit(streamId, 'b', 'length');
  }
}

const gap: StreamDelta = { streamId: 0, position: 9, tokens: Uint32Array.of(1), finish: 'none' };

function refusal(code: 'WORKER_FULL' | 'WORKER_BAD_REQUEST', retryable: boolean): WorkAck {
  return { kind: 'refused', code, message: 'no', retryable };
}

function failure(code: string, retryable: boolean): Partial<StreamDelta> {
  return { error: { code, message: 'x', retryable } };
}

async function ask(stack: SplitStack, salt: string, own: Plan): Promise<number | undefined> {
  try {
    const signal = AbortSignal.timeout(own.leavesMs);
    const response = await stack.chat({ cache_salt: salt, stream: own.isStream }, { signal });
    await response.text();
    return response.status;
  } catch {
    return undefined;
  }
}

test('whatever fails at whatever stage: each booking ends once, every stream stops, no KV stays', () =>
  SplitStack.with(async (stack) => {
    const saboteur = new Saboteur(stack);
    const statuses = new Map<number | undefined, number>();
    let asked = 0;
    let offers = 0;
    let waiting: Plan[] = [];
    stack.route = async ({ excluded = [], isWhole, kvAt }) => {
      const { routeMs = 0, onFailure = 'fail' } = waiting.shift() ?? {};
      await sleep(routeMs);
      const decoder = stack.workers.find(({ id }) => !excluded.includes(id));
      if (decoder === undefined) {
        return { kind: 'reject', code: 'ROUTER_NO_WORKERS', message: 'none' };
      }
      if (isWhole === true) return stack.place(decoder.id);
      // A router may find no worker that makes a pair with the one that keeps the KV.
      if (kvAt !== undefined && offers++ % 3 > 0) return { ...stack.place(decoder.id), kvAt };
      return stack.split(decoder.id, 'prefill-1', onFailure);
    };
    await fc.assert(
      fc.asyncProperty(fc.array(plan, { minLength: 4, maxLength: 10 }), async (plans) => {
        waiting = [...plans];
        const answers = plans.map((own) => {
          const salt = `s${asked++}`;
          saboteur.plans.set(salt, { ...own, prefill: [...own.prefill], decode: [...own.decode] });
          return ask(stack, salt, own);
        });
        for (const status of await Promise.all(answers)) {
          statuses.set(status, (statuses.get(status) ?? 0) + 1);
        }
        await stack.settled(2_000);
      }),
      { numRuns: 30, endOnFailure: true },
    );
    for (const status of [200, 400, 503, undefined]) {
      assert.ok((statuses.get(status) ?? 0) > 0, `some end with ${status}`);
    }
    assert.equal(statuses.get(500) ?? 0, 0);
    const counted = await stack.figure('split_requests_total');
    const splits = stack.ends().size / 2;
    assert.ok(counted > 30 && counted <= splits, 'each split is counted once');
  }));
