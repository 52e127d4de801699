import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkAck, WorkHeader } from '@busbar/protocol';
import {
  type Script,
  ScriptedStack,
  type ScriptedWorker,
  until,
} from './scripted-stack.testing.ts';
import { sayOk } from './scripted-worker.testing.ts';

/** How a worker acknowledges work that it does not take. */
export const refuse =
  (code: Extract<WorkAck, { kind: 'refused' }>['code'], retryable = true) =>
  (): WorkAck => ({ kind: 'refused', code, message: 'no', retryable });

/** One prefill worker and two decode workers; every decision is a split unless the request asks for one worker. */
export class SplitStack extends ScriptedStack {
  static async with(run: (stack: SplitStack) => Promise<void>): Promise<void> {
    const stack = new SplitStack();
    try {
      await stack.open({ workers: 2, script: stack.fetchAndSay });
      const prefill: Script = (worker, { streamId }) => worker.stage(streamId);
      await stack.addWorker('prefill-1', 'm', prefill, { role: 'prefill' });
      stack.route = ({ excluded = [], isWhole, kvAt }) => {
        const decoder = stack.workers.find(({ id }) => !excluded.includes(id));
        if (decoder === undefined) {
          return { kind: 'reject', code: 'ROUTER_NO_WORKERS', message: 'none' };
        }
        if (kvAt !== undefined) return { ...stack.place(decoder.id), kvAt };
        return isWhole === true ? stack.place(decoder.id) : stack.split(decoder.id, 'prefill-1');
      };
      await run(stack);
    } finally {
      await stack.stop();
    }
  }

  get prefiller(): ScriptedWorker {
    return this.prefillers[0]!;
  }

  get first(): ScriptedWorker {
    return this.workers[0]!;
  }

  get second(): ScriptedWorker {
    return this.workers[1]!;
  }

  /** What a decode worker does with the source of KV: the prefill worker keeps it no longer. False when it is not there. */
  fetch({ kvSource }: WorkHeader): boolean {
    if (kvSource?.transfer.protocol !== 'tcp') return true;
    return this.prefiller.staged.delete(Number(kvSource.transfer.params.transferId));
  }

  readonly fetchAndSay: Script = (worker, header) => {
    this.fetch(header);
    if (header.kvSource?.transfer.protocol === 'nixl') this.prefiller.staged.clear();
    sayOk(worker, header);
  };

  /** Waits until nothing of any request is left: each booking ended once, every stream over, no KV waiting. */
  async settled(limitMs = 1_000): Promise<void> {
    for (const gauge of ['in_flight', 'streams']) {
      const end = performance.now() + limitMs;
      while ((await this.figure(gauge)) !== 0) {
        if (performance.now() > end) assert.fail(`${gauge} is not 0 after ${limitMs} ms`);
        await sleep(5);
      }
    }
    await until(() => [...this.ends().values()].every((count) => count === 1), limitMs);
    await until(() => [...this.workers, ...this.prefillers].every((w) => w.isIdle), limitMs);
    await until(() => this.prefiller.staged.size === 0, limitMs);
  }

  /** Sum of one metric of the frontend over all its labels but these. */
  async figure(name: string, labels: Record<string, string> = {}): Promise<number> {
    const metric = await this.context.registry.getSingleMetric(`busbar_frontend_${name}`)?.get();
    return (metric?.values ?? [])
      .filter((value) => Object.entries(labels).every(([key, l]) => value.labels[key] === l))
      .reduce((sum, { value }) => sum + value, 0);
  }
}
