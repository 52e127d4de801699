import { seconds, type Terminal } from './terminal.ts';

/** What is longer would wrap, and only its last line could be erased. */
const PENDING_CHARS = 76;
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

  /** Says what is waited for, cut to what fits into one line of most terminals. */
  pending(text: string): void {
    if (!this.#terminal.isTty) return;
    this.#clear();
    const short = text.length > PENDING_CHARS ? `${text.slice(0, PENDING_CHARS)}…` : text;
    this.#terminal.write(this.#terminal.paint('dim', `… ${short}`));
    this.#hasPending = true;
  }

  done(text: string): void {
    this.#tell(this.#terminal.paint('green', '✓'), text);
  }

  /** Something happened on the way to the next finished phase. */
  note(text: string): void {
    this.#tell(this.#terminal.paint('dim', '·'), text);
  }

  /** Ends the display, so that other lines can follow. */
  end(): void {
    this.#clear();
  }

  #tell(mark: string, text: string): void {
    this.#clear();
    const time = this.#terminal.paint('dim', seconds(this.elapsedMs).padStart(7));
    this.#terminal.line(`${time}  ${mark} ${text}`);
  }

  #clear(): void {
    if (this.#hasPending) this.#terminal.write(ERASE_LINE);
    this.#hasPending = false;
  }
}
