import type { Clock } from '@busbar/base';
import type { Bus, BusMessage, Subscription } from '@busbar/bus';
import { decodeCloudEvent, type Subjects } from '@busbar/protocol';

/** Routers repeat `router.demoted` while it holds; what is not repeated for so long is over. */
const EXPIRY_MS = 10_000;
/** Nobody reads a longer list of reasons; what still holds is said again and takes the place of what is over. */
const MAX_ENTRIES = 1_024;
const MAX_REASON_CHARS = 300;

interface Degradation {
  sentence: string;
  heardMs: number;
}

/**
 * What routers say that makes the stack worse than it should be, so that this frontend's readiness shows it: workers whose cache
 * they cannot trust, and pairs of workers that they insist on and do not find.
 */
export class Degradations {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Degradation>();
  readonly #subscriptions: Subscription[];

  constructor(bus: Bus, subjects: Subjects, clock: Clock) {
    this.#clock = clock;
    this.#subscriptions = [
      bus.subscribe(subjects.event('router.demoted'), (message) => this.#onDemoted(message)),
      bus.subscribe(subjects.event('router.promoted'), (message) => this.#onPromoted(message)),
    ];
  }

  /** A router would not place a request for lack of a pair of workers. Shown until it has not been said for a while. */
  noPair(model: string, reason: string): void {
    this.#add(`no pair ${model}`, `model "${model}": ${reason.slice(0, MAX_REASON_CHARS)}`);
  }

  /** One sentence for each fault, from whichever router said it. */
  reasons(): string[] {
    this.#expire();
    const sentences = new Set([...this.#entries.values()].map(({ sentence }) => sentence));
    return [...sentences].toSorted();
  }

  stop(): void {
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
  }

  #onDemoted(message: BusMessage): void {
    const event = read(message);
    const reason = typeof event.reason === 'string' ? event.reason : 'its KV cache is not known';
    this.#add(event.key, `worker ${event.worker}: ${reason.slice(0, MAX_REASON_CHARS)}`);
  }

  #add(key: string, sentence: string): void {
    if (!this.#entries.has(key) && this.#entries.size >= MAX_ENTRIES) {
      this.#expire();
      if (this.#entries.size >= MAX_ENTRIES) return;
    }
    this.#entries.set(key, { sentence, heardMs: this.#clock.monotonicMs() });
  }

  #expire(): void {
    const oldestMs = this.#clock.monotonicMs() - EXPIRY_MS;
    for (const [key, { heardMs }] of this.#entries) {
      if (heardMs < oldestMs) this.#entries.delete(key);
    }
  }

  #onPromoted(message: BusMessage): void {
    this.#entries.delete(read(message).key);
  }
}

interface RouterEvent {
  /** Each router speaks for itself. */
  key: string;
  worker: string;
  reason: unknown;
}

/** Throws ProtocolError for what is no event; the bus counts it. */
function read(message: BusMessage): RouterEvent {
  const { source, subject, data } = decodeCloudEvent(message.data);
  const workerId = data['workerId'];
  const worker = typeof workerId === 'string' ? workerId : (subject ?? 'unknown');
  return { key: `${source} ${worker}`, worker, reason: data['reason'] };
}
