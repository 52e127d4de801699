import type { EngineDelta } from '../../port.ts';

/**
 * Gathers the deltas of one turn of the event loop into one step. An engine answers each stream on a socket of its own, and a microtask
 * would run between two of them; `setImmediate` runs behind all sockets that were readable together, which is one message on
 * the bus instead of one for each stream.
 */
export class StepGatherer {
  readonly #deliver: (deltas: EngineDelta[]) => void;
  #deltas: EngineDelta[] = [];
  #isArmed = false;

  constructor(deliver: (deltas: EngineDelta[]) => void) {
    this.#deliver = deliver;
  }

  add(delta: EngineDelta): void {
    this.#deltas.push(delta);
    if (this.#isArmed) return;
    this.#isArmed = true;
    setImmediate(() => this.flush());
  }

  /** Delivers what waits now. */
  flush(): void {
    this.#isArmed = false;
    if (this.#deltas.length === 0) return;
    const deltas = this.#deltas;
    this.#deltas = [];
    this.#deliver(deltas);
  }
}
