const FIRST_SIZE = 16;

/**
 * What a decision reads of every worker, as one array a quantity, indexed by the worker's slot. A decision among hundreds of workers
 * walks these arrays; walking as many objects would cost a cache miss for each field.
 */
export class WorkerColumns {
  /** Written by the booking ledger: sums over the worker's bookings. */
  requests = new Float64Array(FIRST_SIZE);
  /** Requests that could run beside them. */
  freeSeats = new Float64Array(FIRST_SIZE);
  /** Bookings without a first token whose prompt is computed here, and those whose KV is fetched. */
  fetches = new Float64Array(FIRST_SIZE);
  prefills = new Float64Array(FIRST_SIZE);
  /** Prompt tokens still to be computed, cached ones not counted. */
  prefillTokens = new Float64Array(FIRST_SIZE);
  /** The same without the oldest prefill, which the engine works on, and when that one is expected to end. */
  waitingTokens = new Float64Array(FIRST_SIZE);
  headEndsMs = new Float64Array(FIRST_SIZE);
  /** Room that running requests leave in the cache, by their uncached prompts and expected outputs; may be negative. */
  freeTokens = new Float64Array(FIRST_SIZE);

  /** Written by the row: what the worker announced, reported and proved. */
  blockSize = new Float64Array(FIRST_SIZE);
  capacityTokens = new Float64Array(FIRST_SIZE);
  /** Longest prompt that the worker takes. */
  promptLimit = new Float64Array(FIRST_SIZE);
  maxRunning = new Float64Array(FIRST_SIZE);
  /** Of prefill. */
  msPerToken = new Float64Array(FIRST_SIZE);
  /** Prompt tokens of the mean step that this rate was measured at: each of them holds one base step. */
  stepTokens = new Float64Array(FIRST_SIZE);
  decodeStepMs = new Float64Array(FIRST_SIZE);
  /** From booking to end of a request. */
  serviceMs = new Float64Array(FIRST_SIZE);
  /** Room that the working set leaves in the cache; negative when more is in use than fits. */
  slackTokens = new Float64Array(FIRST_SIZE);
  /** Reported KV that waits to be fetched by another worker. */
  stagedTokens = new Float64Array(FIRST_SIZE);
  /** Last sign of life; minus infinity for a worker that must not get requests. */
  openMs = new Float64Array(FIRST_SIZE);
  /** Index owners of lower tiers that count, over all workers. */
  lowerOwners = 0;
  /** The index owner whose overlap counts, when there is exactly one; otherwise -1. */
  soleOwner = new Int32Array(FIRST_SIZE);

  /** Makes room for `slot` and sets it to zero everywhere. */
  open(slot: number): void {
    while (slot >= this.requests.length) this.#grow();
    for (const column of COLUMNS) this[column][slot] = 0;
    this.soleOwner[slot] = -1;
  }

  #grow(): void {
    for (const column of COLUMNS) {
      const wider = new Float64Array(this[column].length * 2);
      wider.set(this[column]);
      this[column] = wider;
    }
    const owners = new Int32Array(this.soleOwner.length * 2);
    owners.set(this.soleOwner);
    this.soleOwner = owners;
  }
}

const COLUMNS = [
  'requests',
  'freeSeats',
  'fetches',
  'prefills',
  'prefillTokens',
  'waitingTokens',
  'headEndsMs',
  'freeTokens',
  'blockSize',
  'capacityTokens',
  'promptLimit',
  'maxRunning',
  'msPerToken',
  'stepTokens',
  'decodeStepMs',
  'serviceMs',
  'slackTokens',
  'stagedTokens',
  'openMs',
] as const satisfies readonly (keyof WorkerColumns)[];
