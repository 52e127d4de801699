import { messageOf } from '@busbar/base';
import { Piscina } from 'piscina';
import { TokenizerError } from '../errors.ts';
import type { ThreadData } from './entry.ts';

/** Tasks that may wait per thread before callers are refused. */
const QUEUED_PER_THREAD = 64;
const TASK_LIMIT_MS = 30_000;
const ENTRY = new URL('./entry.ts', import.meta.url).href;

export interface ThreadPoolOptions {
  readonly data: ThreadData;
  readonly threads: number;
  /** How long an idle thread stays; Infinity keeps it, for threads that are dear to start. */
  readonly idleMs: number;
}

/** Threads for what would hold the event loop too long. The first one starts with the first task. */
export class ThreadPool {
  readonly #options: ThreadPoolOptions;
  #pool: Piscina | undefined;
  #closed = false;

  constructor(options: ThreadPoolOptions) {
    this.#options = options;
  }

  /**
   * Runs one of the functions of the entry. Throws TokenizerError TOKENIZER_BUSY when too many wait, TOKENIZER_ABORTED,
   * TOKENIZER_CLOSED, or TOKENIZER_FAILED after 30 s or when the thread fails.
   */
  async run<T>(name: string, task: unknown, signal?: AbortSignal): Promise<T> {
    if (this.#closed) throw new TokenizerError('TOKENIZER_CLOSED');
    if (signal?.aborted === true) throw new TokenizerError('TOKENIZER_ABORTED');
    const pool = (this.#pool ??= createPool(this.#options));
    if (pool.queueSize >= pool.options.maxQueue) throw new TokenizerError('TOKENIZER_BUSY');
    const running = pool.run(task, { name, signal: AbortSignal.timeout(TASK_LIMIT_MS) });
    try {
      return await (signal === undefined ? running : untilAborted(running, signal));
    } catch (error) {
      if (error instanceof TokenizerError) throw error;
      if (this.#closed) throw new TokenizerError('TOKENIZER_CLOSED', undefined, error);
      throw new TokenizerError('TOKENIZER_FAILED', messageOf(error), error);
    }
  }

  /** Ends the threads; tasks in them fail. */
  async close(): Promise<void> {
    this.#closed = true;
    const pool = this.#pool;
    this.#pool = undefined;
    await pool?.destroy();
  }
}

/** The library's pool, without a thread yet. */
export function createPool({ data, threads, idleMs }: ThreadPoolOptions): Piscina {
  const pool = new Piscina({
    filename: ENTRY,
    minThreads: 0,
    maxThreads: threads,
    idleTimeout: idleMs,
    maxQueue: threads * QUEUED_PER_THREAD,
    concurrentTasksPerWorker: 1,
    workerData: data,
    recordTiming: false,
    // A thread that waits in Atomics.wait never runs its timers and its collector.
    atomics: 'disabled',
    resourceLimits: { maxYoungGenerationSizeMb: data.kind === 'fast' ? 8 : 32 },
  });
  // What concerns no task that anybody waits for: an answer that crosses the end of its thread, or a thread that fails while it is
  // idle. Each task has its own error, and an event that nobody listens to would end the process.
  pool.on('error', () => {});
  return pool;
}

/** The task itself runs on: to stop it would end its thread, and the next text would pay for a new one. */
async function untilAborted<T>(running: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(new TokenizerError('TOKENIZER_ABORTED'));
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([running, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
    running.catch(() => {});
  }
}
