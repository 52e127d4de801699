import { messageOf } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import type { Instance } from '@busbar/protocol';
import { readInstances } from '../clients/cluster.ts';
import { chatOnce } from '../clients/http.ts';
import type { Env } from '../context.ts';
import { CliError } from '../errors.ts';
import type { Stack } from '../stack/stack.ts';
import { type StackProcess, stackUrl } from '../stack/state.ts';
import type { Phases } from '../terminal/phases.ts';
import { count, seconds } from '../terminal/terminal.ts';
import { until } from '../wait.ts';
import { VLLM_START_SECONDS } from './flags.ts';
import type { UpOptions } from './options.ts';
import { StartProgress } from './start-progress.ts';

/** From the first process to the first answer. Loading the tokenizer of a large model is most of it. */
const START_MS = 60_000;
/** Beyond what a worker gives its vLLM to start, for everything else. */
const AROUND_VLLM_MS = 60_000;
const POLL_MS = 50;
const ATTEMPT_MS = 10_000;

/** How long a stack may take until it answers: with vLLM as long as its workers wait for that, which reads large models from disks. */
export function startLimitMs({ engine }: Pick<UpOptions, 'engine'>, env: Env): number {
  if (engine !== 'vllm') return START_MS;
  const startSeconds = Number(env['BUSBAR_VLLM_START_SECONDS'] || VLLM_START_SECONDS);
  return (Number.isFinite(startSeconds) ? startSeconds * 1_000 : START_MS) + AROUND_VLLM_MS;
}

/**
 * Waits until every process of the stack holds a lease that says ready, and tells each as a phase. Throws CLI_START_FAILED when
 * one of them ends before, or when the time is over.
 */
export async function waitForLeases(
  stack: Stack,
  bus: Bus,
  processes: readonly StackProcess[],
  phases: Phases,
  limitMs: number,
  signal: AbortSignal,
): Promise<void> {
  const progress = new StartProgress(phases);
  const waiting = new Map(processes.map((entry) => [entry.id, entry]));
  const done = await until(
    async () => {
      stack.checkAlive();
      const instances = await readInstances(bus, stack.state.namespace);
      for (const entry of waiting.values()) {
        const instance = instances.get(entry.id);
        if (instance?.state !== 'ready') continue;
        waiting.delete(entry.id);
        if (instance.adminUrl !== undefined) stack.setAdminUrl(entry, instance.adminUrl);
        // An engine that was there before says itself what it serves.
        if (instance.worker !== undefined) stack.state.model ||= instance.worker.model;
        phases.done(describeInstance(instance));
      }
      if (waiting.size > 0) {
        const starting = [...waiting.keys()].flatMap((id) => instances.get(id) ?? []);
        if (await progress.ask(starting)) stack.recordEngines();
        const texts = [...waiting.keys()].map((id) => progress.describe(id));
        phases.pending(`waiting for ${texts.join(', ')} … ${seconds(phases.elapsedMs)}`);
      }
      return waiting.size === 0 || undefined;
    },
    { timeoutMs: limitMs - phases.elapsedMs, everyMs: POLL_MS, signal },
  );
  stack.recordEngines();
  signal.throwIfAborted();
  if (done === undefined) {
    const names = [...waiting.values()].map(
      (entry) => `${progress.describe(entry.id)}, log ${entry.logFile}`,
    );
    throw new CliError(
      'CLI_START_FAILED',
      `not ready after ${limitMs / 1000} s: ${names.join('; ')}`,
    );
  }
}

/** Waits until a chat with one token of output works. */
export async function waitForAnswer(
  stack: Stack,
  phases: Phases,
  limitMs: number,
  signal: AbortSignal,
): Promise<void> {
  const { state } = stack;
  let last = 'no attempt was made';
  const answer = await until(
    async () => {
      stack.checkAlive();
      try {
        return await chatOnce({
          url: stackUrl(state),
          model: state.model,
          messages: [{ role: 'user', content: 'Hello' }],
          maxTokens: 1,
          signal: AbortSignal.any([signal, AbortSignal.timeout(ATTEMPT_MS)]),
        });
      } catch (error) {
        last = messageOf(error);
        phases.pending(`asking ${state.model}: ${last}`);
        return undefined;
      }
    },
    { timeoutMs: Math.max(ATTEMPT_MS, limitMs - phases.elapsedMs), everyMs: 100, signal },
  );
  signal.throwIfAborted();
  if (answer === undefined) {
    throw new CliError(
      'CLI_START_FAILED',
      `every process is ready, and ${state.model} does not answer: ${last}`,
    );
  }
  phases.done(`${state.model} answers on ${stackUrl(state)}`);
}

function describeInstance(instance: Instance): string {
  const { worker } = instance;
  if (worker === undefined) return `${instance.id} ready`;
  const tokens = count(worker.kvBlocks * worker.blockSize);
  const what = worker.role === 'prefill' ? `prefills ${worker.model}` : worker.model;
  return `${instance.id} ready: ${what}, KV cache of ${tokens} tokens (${count(worker.kvBlocks)} blocks of ${worker.blockSize})`;
}
