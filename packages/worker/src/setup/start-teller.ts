import type { VllmProgress } from '@busbar/engine';
import type { ServiceContext } from '@busbar/service';

/** `/ready` is asked by people who wait. */
const REFRESH_MS = 1_000;
/** A phase that lasts is told again in the log. */
const LOG_AGAIN_MS = 15_000;

/** Says in the log and in `/ready` what the start of an engine is at, and for how long. */
export class StartTeller {
  readonly #context: ServiceContext;
  #last: VllmProgress | undefined;
  #heardAtMs = 0;
  #loggedAtMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(context: ServiceContext) {
    this.#context = context;
  }

  onProgress(progress: VllmProgress): void {
    this.#last = progress;
    this.#heardAtMs = this.#context.clock.monotonicMs();
    this.#tell(true);
    if (progress.phase === 'ready') clearInterval(this.#timer);
    else this.#timer ??= setInterval(() => this.#tell(false), REFRESH_MS).unref();
  }

  #tell(isNew: boolean): void {
    const { clock, log, stopping } = this.#context;
    if (this.#last === undefined) return;
    if (stopping.aborted) clearInterval(this.#timer);
    const nowMs = clock.monotonicMs();
    const { phase, detail, elapsedMs } = this.#last;
    const seconds = Math.round((elapsedMs + nowMs - this.#heardAtMs) / 1_000);
    const text = `vllm ${phase}: ${detail}`;
    this.#context.reportStart(`${text} (${seconds} s)`);
    if (!isNew && nowMs - this.#loggedAtMs < LOG_AGAIN_MS) return;
    this.#loggedAtMs = nowMs;
    log.info({ phase, seconds }, text);
  }
}
