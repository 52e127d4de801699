import { seconds, type Terminal } from './terminal.ts';

const ERASE_LINE = '\r\u001b[2K';

/**
 * Shows a start as phases: one finished line each with the time since the beginning. On a TTY the phase that runs stands below
 * them; elsewhere only finished lines are written.
 */
export class Phases {
  readonly #terminal: Terminal;
  readonly #now: () => number;
  readonly #startedMs: number;
  #hasPending = false;

  constructor(terminal: Terminal, now: () => number) {
    this.#terminal = terminal;
    this.#now = now;
    this.#startedMs = now();
  }

  get elapsedMs(): number {
    return this.#now() - this.#startedMs;
  }

  /** Says what is waited for. */
  pending(text: string): void {
    if (!this.#terminal.isTty) return;
    this.#clear();
    this.#terminal.write(this.#terminal.paint('dim', `… ${text}`));
    this.#hasPending = true;
  }

  done(text: string): void {
    this.#clear();
    const mark = this.#terminal.paint('green', '✓');
    const time = this.#terminal.paint('dim', seconds(this.elapsedMs).padStart(7));
    this.#terminal.line(`${time}  ${mark} ${text}`);
  }

  /** Ends the display, so that other lines can follow. */
  end(): void {
    this.#clear();
  }

  #clear(): void {
    if (this.#hasPending) this.#terminal.write(ERASE_LINE);
    this.#hasPending = false;
  }
}
