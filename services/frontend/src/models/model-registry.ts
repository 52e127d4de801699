import { isDeepStrictEqual } from 'node:util';
import { messageOf } from '@busbar/base';
import type { Bucket, BucketChange, Subscription } from '@busbar/bus';
import { decodeModelCard, decodeToken, type ModelCard } from '@busbar/protocol';
import type { Logger } from '@busbar/telemetry';
import type { Instances } from './instances.ts';
import {
  hasSameTokenizer,
  type LoadTokenizer,
  loadModel,
  type ServedModel,
} from './model-loader.ts';

const MAX_MODELS = 1_024;
const NOTHING_ANNOUNCED = 'no worker has announced a model';
/** A model whose last worker left in good order is known for so long: a rollout is shorter, a retirement is not. */
const RETIRED_MS = 600_000;

interface KnownModel {
  card: ModelCard | undefined;
  served: ServedModel | undefined;
  /** Why it cannot be served, whatever the workers do. */
  fault: string | undefined;
}

/** What serves a name: a model, or an adapter of one. */
export interface FoundModel {
  model: ServedModel;
  /** Name of the adapter, when the name is one. */
  lora: string | undefined;
}

export type Lookup =
  | ({ kind: 'ready' } & FoundModel)
  /** The name is known, or no name is yet, and nobody can answer for it now. */
  | { kind: 'unavailable'; reason: string }
  | { kind: 'unknown' };

/**
 * The models of the stack. A model is listed when a request for it would be answered: its card is read, its tokenizer is
 * loaded, a worker is ready and a router too. Broken cards are kept apart with their reason and disturb no other.
 */
export class ModelRegistry {
  readonly #instances: Instances;
  readonly #load: LoadTokenizer;
  readonly #threads: number;
  readonly #log: Logger;
  readonly #models = new Map<string, KnownModel>();
  #subscription: Subscription | undefined;
  #isStopped = false;

  constructor(options: {
    instances: Instances;
    load: LoadTokenizer;
    threads: number;
    log: Logger;
  }) {
    this.#instances = options.instances;
    this.#load = options.load;
    this.#threads = options.threads;
    this.#log = options.log;
  }

  async watch(bucket: Bucket): Promise<void> {
    this.#subscription = await bucket.watch((change) => this.#onChange(change));
  }

  /** What a request for `name` gets. A model wins over an adapter of the same name. */
  lookup(name: string): Lookup {
    const known = this.#models.get(name);
    if (known !== undefined) return this.#lookupModel(name, known, undefined);
    let first: Lookup | undefined;
    for (const model of this.#instances.modelsOfAdapter(name)) {
      const base = this.#models.get(model);
      if (base === undefined) continue;
      const found = this.#lookupModel(model, base, name);
      if (found.kind === 'ready') return found;
      first ??= found;
    }
    if (first !== undefined) return first;
    // While the stack has no model at all, every name may be one of those that still start.
    if (this.#models.size === 0) return { kind: 'unavailable', reason: NOTHING_ANNOUNCED };
    return { kind: 'unknown' };
  }

  /** Models that can answer now, oldest first. */
  listed(): ServedModel[] {
    const models: ServedModel[] = [];
    for (const [name, known] of this.#models) {
      if (known.served !== undefined && this.#whyNot(name, known) === undefined) {
        models.push(known.served);
      }
    }
    return models;
  }

  /** Adapters of the listed models, but for those whose name is a model's. */
  adapters(): { name: string; model: ServedModel }[] {
    return this.listed().flatMap((model) =>
      this.#instances
        .adapters(model.card.name)
        .filter((name) => !this.#models.has(name))
        .map((name) => ({ name, model })),
    );
  }

  /** One sentence for each model that cannot answer, unless its last worker left in good order. */
  faults(): string[] {
    const faults: string[] = [];
    for (const [name, known] of this.#models) {
      if (this.#instances.retiredMs(name) !== undefined) continue;
      const reason = this.#whyNot(name, known);
      if (reason !== undefined) faults.push(`model "${name}": ${reason}`);
    }
    if (this.#models.size === 0) faults.push(NOTHING_ANNOUNCED);
    return faults;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#subscription?.unsubscribe();
    for (const known of this.#models.values()) await known.served?.tokenizer.close();
  }

  #lookupModel(name: string, known: KnownModel, lora: string | undefined): Lookup {
    const retiredMs = this.#instances.retiredMs(name);
    if (retiredMs !== undefined && retiredMs > RETIRED_MS) return { kind: 'unknown' };
    const reason = this.#whyNot(name, known, lora);
    if (known.served === undefined || reason !== undefined) {
      return { kind: 'unavailable', reason: reason ?? 'its tokenizer is being loaded' };
    }
    return { kind: 'ready', model: known.served, lora };
  }

  #whyNot(name: string, known: KnownModel, lora?: string): string | undefined {
    if (known.fault !== undefined) return known.fault;
    if (known.served === undefined) return 'its tokenizer is being loaded';
    if (this.#instances.readyWorkers(name, lora) === 0) return 'no worker is ready';
    if (this.#instances.readyRouters.length === 0) return 'no router is ready';
    return undefined;
  }

  #onChange(change: BucketChange): void {
    if (change.kind === 'put') this.#put(decodeToken(change.key), change.value);
    else if (change.kind === 'gone') this.#remove(decodeToken(change.key));
    else {
      const names = new Set([...change.keys].map(decodeToken));
      for (const name of this.#models.keys()) if (!names.has(name)) this.#remove(name);
    }
  }

  #put(name: string, value: Uint8Array): void {
    const known = this.#models.get(name) ?? {
      card: undefined,
      served: undefined,
      fault: undefined,
    };
    if (!this.#models.has(name) && this.#models.size >= MAX_MODELS) {
      this.#log.error({ name, limit: MAX_MODELS }, 'too many models; this one is left out');
      return;
    }
    this.#models.set(name, known);
    try {
      const card = decodeModelCard(value);
      // A watch that opens anew tells every card again.
      if (known.served !== undefined && isDeepStrictEqual(known.card, card)) return;
      if (card.name !== name) throw new Error('the card is under the name of another model');
      known.card = card;
      known.fault = undefined;
      if (known.served !== undefined && hasSameTokenizer(known.served.card, card)) {
        void this.#replace(known, card, known.served.tokenizer);
      } else void this.#replace(known, card, undefined);
    } catch (error) {
      this.#fail(name, known, messageOf(error));
    }
  }

  /** Loads beside the requests that use the old one. The newest card wins, whichever is loaded first. */
  async #replace(
    known: KnownModel,
    card: ModelCard,
    tokenizer: ServedModel['tokenizer'] | undefined,
  ): Promise<void> {
    try {
      const load: LoadTokenizer =
        tokenizer === undefined ? this.#load : () => Promise.resolve(tokenizer);
      const served = await loadModel(card, load, this.#threads);
      const isCurrent = known.card === card && !this.#isStopped;
      if (isCurrent) known.served = served;
      else if (tokenizer === undefined) await served.tokenizer.close();
      this.#log.info({ model: card.name, encoder: served.tokenizer.encoderKind }, 'model loaded');
    } catch (error) {
      if (known.card === card) this.#fail(card.name, known, messageOf(error));
    }
  }

  #fail(name: string, known: KnownModel, reason: string): void {
    known.served = undefined;
    known.fault = `its card cannot be used: ${reason.slice(0, 200)}`;
    this.#log.error({ model: name, reason }, 'a model card cannot be used');
  }

  #remove(name: string): void {
    const known = this.#models.get(name);
    if (known === undefined) return;
    known.card = undefined;
    this.#models.delete(name);
    this.#log.info({ model: name }, 'model retired');
  }
}
