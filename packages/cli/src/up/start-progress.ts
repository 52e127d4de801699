import type { Instance } from '@busbar/protocol';
import { readinessSchema } from '../clients/admin-pages.ts';
import { getJson } from '../clients/http.ts';
import type { Phases } from '../terminal/phases.ts';

/** A process that starts is asked this often what it is at; a child of it writes some lines a second at most. */
const ASK_EVERY_MS = 500;
const ANSWER_MS = 1_000;
/** Of the check in `/ready` that says what a start is at, and what it says before there is anything to tell. */
const CHECK = 'started';
const NOTHING_YET = 'starting';

/** What processes that take long to start say they are at: a line for each new phase, and a text for the one that waits. */
export class StartProgress {
  readonly #phases: Phases;
  readonly #texts = new Map<string, string>();
  #askedAtMs = Number.NEGATIVE_INFINITY;

  constructor(phases: Phases) {
    this.#phases = phases;
  }

  /** Asks those of `starting` that have an admin port; answers false when that was done a moment ago. */
  async ask(starting: readonly Instance[]): Promise<boolean> {
    const nowMs = this.#phases.elapsedMs;
    if (nowMs - this.#askedAtMs < ASK_EVERY_MS) return false;
    this.#askedAtMs = nowMs;
    await Promise.all(
      starting.map(async ({ id, adminUrl }) => {
        if (adminUrl === undefined) return;
        const answer = await getJson(`${adminUrl}/ready`, ANSWER_MS);
        this.#hear(id, phaseOf(answer?.body));
      }),
    );
    return true;
  }

  /** `decode-1-ab12 (loading the model)`. */
  describe(id: string): string {
    const text = this.#texts.get(id);
    return text === undefined ? id : `${id} (${text})`;
  }

  #hear(id: string, text: string | undefined): void {
    if (text === undefined) return;
    const before = this.#texts.get(id);
    this.#texts.set(id, text);
    // The same phase a second later is no news.
    if (before === undefined || phaseIn(before) !== phaseIn(text)) {
      this.#phases.note(`${id}: ${phaseIn(text)}`);
    }
  }
}

/** Without the time at its end: lines have their own. */
function phaseIn(text: string): string {
  return text.replace(/ \(\d+(\.\d+)? s\)$/, '');
}

function phaseOf(body: unknown): string | undefined {
  const parsed = readinessSchema.safeParse(body);
  const detail = parsed.data?.checks.find((check) => check.name === CHECK)?.detail;
  return detail === NOTHING_YET ? undefined : detail;
}
