import { createRng, type Rng } from '@busbar/base';
import {
  type Arrival,
  openLoop,
  type SimRequest,
  totalSpeed,
  type WorkerSpec,
  type Workload,
  type WorkloadDefinition,
} from '../workload.ts';
import {
  between,
  concat,
  exponentialMs,
  permutation,
  randomTokens,
  TEMPLATE_HEAD,
  TEMPLATE_TAIL,
} from './text.ts';

/** Prompts of about 1,560 tokens: 1,500 English words that come again, then 24 that do not. */
class SharedPrefixes {
  readonly #rng: Rng;
  readonly #prefixes: Uint32Array[];
  readonly #asked = new Set<number>();
  readonly #maxTokens: number;

  constructor(rng: Rng, prefixes: number, maxTokens: number) {
    this.#rng = rng;
    this.#maxTokens = maxTokens;
    this.#prefixes = Array.from({ length: prefixes }, () =>
      concat(TEMPLATE_HEAD, randomTokens(rng, between(rng, 1515, 1535))),
    );
  }

  request(prefix: number, tag: number): SimRequest {
    const tail = randomTokens(this.#rng, between(this.#rng, 24, 26));
    const isRepeat = this.#asked.has(prefix);
    this.#asked.add(prefix);
    return {
      tokens: concat(this.#prefixes[prefix]!, tail, TEMPLATE_TAIL),
      maxTokens: this.#maxTokens,
      ignoreEos: false,
      seed: this.#rng.u32(),
      isRepeat,
      tag,
    };
  }
}

interface Shape {
  name: string;
  title: string;
  prefixes: number;
  workers: readonly WorkerSpec[];
}

const CLOSED_ROUNDS = 6;
const BATCH = 6;

/** Each prefix asked in six rounds, shuffled, six at a time: the next six go out when all six are answered. */
export function closedSharedPrefix(shape: Shape): WorkloadDefinition {
  return {
    name: shape.name,
    title: shape.title,
    workers: shape.workers,
    create: ({ seed }) => {
      const rng = createRng(seed);
      const prompts = new SharedPrefixes(rng, shape.prefixes, 8);
      const order: number[] = [];
      for (let round = 0; round < CLOSED_ROUNDS; round++) {
        order.push(...permutation(rng, shape.prefixes));
      }
      let sent = 0;
      let open = 0;
      const batch = (atMs: number): Arrival[] => {
        const arrivals: Arrival[] = [];
        while (arrivals.length < BATCH && sent < order.length) {
          arrivals.push({ atMs, request: prompts.request(order[sent]!, sent) });
          sent++;
        }
        open = arrivals.length;
        return arrivals;
      };
      const workload: Workload = {
        arrivals: () => batch(0).values(),
        onFinished: ({ atMs }) => (--open === 0 ? batch(atMs) : []),
      };
      return workload;
    },
  };
}

interface OpenShape extends Shape {
  /** Mean arrivals a second for each unit of speed of the workers. */
  ratePerSec: number;
  durationMs: number;
  maxTokens: number;
}

/** The same prompts at random times: a Poisson process, each prefix as likely as the other. */
export function openSharedPrefix(shape: OpenShape): WorkloadDefinition {
  return {
    name: shape.name,
    title: shape.title,
    workers: shape.workers,
    create: ({ seed, workers, durationMs = shape.durationMs }) => {
      const meanMs = 1000 / (shape.ratePerSec * totalSpeed(workers));
      return openLoop(function* () {
        const rng = createRng(seed);
        const prompts = new SharedPrefixes(rng, shape.prefixes, shape.maxTokens);
        let tag = 0;
        for (
          let atMs = exponentialMs(rng, meanMs);
          atMs < durationMs;
          atMs += exponentialMs(rng, meanMs)
        ) {
          yield { atMs, request: prompts.request(rng.int(shape.prefixes), tag++) };
        }
      });
    },
  };
}
