/** What a probe of a link found. */
export interface LinkProbe {
  bytesPerMs: number;
  /** Time of an exchange that carries nothing: from the first packet of a connection to the first byte of the answer. */
  latencyMs: number;
}

/** A shorter transfer is made of latency; it says nothing of the rate. */
const LARGE_BYTES = 1_048_576;
/** Share of the old that stays with each new sample. A large transfer is a mean in itself, so the last few are enough. */
const KEEP_RATE = 0.6;
const KEEP_LATENCY = 0.8;
/** Behind this a link may have become another one. */
const STALE_MS = 300_000;

/** Bytes and milliseconds whose quotient is a rate. */
interface Sums {
  bytes: number;
  chargedMs: number;
}

/** The account of one link. Times are of any clock that does not go back. */
export class LinkAccount {
  transfers = 0;
  failures = 0;
  lastFailure: string | undefined;
  /** Something came over it. */
  isProven = false;
  bytesTotal = 0;
  busyMsTotal = 0;
  readonly #isProbeOfSamePath: boolean;
  readonly #large: Sums = { bytes: 0, chargedMs: 0 };
  readonly #small: Sums = { bytes: 0, chargedMs: 0 };
  #running = 0;
  /** Advances by `dt / n` while `n` transfers run: what each of them would be charged. */
  #fairMs = 0;
  #atMs = 0;
  #latencyMs: number | undefined;
  #lastTransferMs = -Infinity;
  #probe: { bytesPerMs: number; atMs: number } | undefined;

  /** `isProbeOfSamePath`: transfers use the connection that probes use, so that a newer probe is right where they differ. */
  constructor(isProbeOfSamePath: boolean) {
    this.#isProbeOfSamePath = isProbeOfSamePath;
  }

  get running(): number {
    return this.#running;
  }

  /** The time from which anything of the link is known; a link without one was never measured. */
  get lastNewsMs(): number {
    return Math.max(this.#lastTransferMs, this.#probe?.atMs ?? -Infinity);
  }

  get latencyMs(): number {
    return this.#latencyMs ?? 0;
  }

  /** Answers where the fair clock stands, to be handed to `end`. */
  begin(nowMs: number): number {
    this.#advance(nowMs);
    this.#running++;
    return this.#fairMs;
  }

  /** A transfer that began at `fairMs` of the fair clock and at `beganMs` has moved `bytes`. */
  end(beganMs: number, fairMs: number, bytes: number, nowMs: number): void {
    this.#advance(nowMs);
    this.#running--;
    this.bytesTotal += bytes;
    const chargedMs = this.#fairMs - fairMs;
    if (bytes <= 0 || chargedMs <= 0) return;
    this.#lastTransferMs = nowMs;
    const durationMs = nowMs - beganMs;
    if (bytes >= LARGE_BYTES) this.#learnRate(bytes, chargedMs);
    else this.#learnLatency(bytes, chargedMs, durationMs);
  }

  probed({ bytesPerMs, latencyMs }: LinkProbe, nowMs: number): void {
    if (bytesPerMs > 0) this.#probe = { bytesPerMs, atMs: nowMs };
    this.#latencyMs ??= latencyMs;
  }

  /** Bytes per millisecond and what that rests on. */
  rate(): { bytesPerMs: number; source: 'none' | 'probe' | 'transfers' } {
    const learned = quotient(this.#large);
    const probe = this.#probe;
    if (learned > 0 && probe !== undefined && probe.atMs - this.#lastTransferMs > STALE_MS) {
      const isProbeRight = this.#isProbeOfSamePath || probe.bytesPerMs > learned;
      if (isProbeRight) return { bytesPerMs: probe.bytesPerMs, source: 'probe' };
    }
    if (learned > 0) return { bytesPerMs: learned, source: 'transfers' };
    if (probe !== undefined) return { bytesPerMs: probe.bytesPerMs, source: 'probe' };
    const poor = quotient(this.#small);
    return { bytesPerMs: poor, source: poor > 0 ? 'transfers' : 'none' };
  }

  #advance(nowMs: number): void {
    const passedMs = nowMs - this.#atMs;
    if (this.#running > 0 && passedMs > 0) {
      this.busyMsTotal += passedMs;
      this.#fairMs += passedMs / this.#running;
    }
    this.#atMs = Math.max(this.#atMs, nowMs);
  }

  #learnRate(bytes: number, chargedMs: number): void {
    // At least half of the time counts for the bytes, so that a latency which was learned too high cannot make the rate boundless.
    add(this.#large, bytes, Math.max(chargedMs - this.latencyMs, chargedMs / 2));
  }

  #learnLatency(bytes: number, chargedMs: number, durationMs: number): void {
    add(this.#small, bytes, chargedMs);
    const { bytesPerMs } = this.rate();
    // With company, the time says more of the others than of the latency.
    const isAlone = durationMs - chargedMs < durationMs / 100;
    if (bytesPerMs === 0 || !isAlone) return;
    const sample = Math.max(0, durationMs - bytes / bytesPerMs);
    this.#latencyMs =
      this.#latencyMs === undefined
        ? sample
        : KEEP_LATENCY * this.#latencyMs + (1 - KEEP_LATENCY) * sample;
  }
}

function add(sums: Sums, bytes: number, chargedMs: number): void {
  sums.bytes = sums.bytes * KEEP_RATE + bytes;
  sums.chargedMs = sums.chargedMs * KEEP_RATE + chargedMs;
}

function quotient({ bytes, chargedMs }: Sums): number {
  return chargedMs > 0 ? bytes / chargedMs : 0;
}
