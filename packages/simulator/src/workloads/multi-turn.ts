import { createRng, type Rng } from '@busbar/base';
import {
  type Arrival,
  equalWorkers,
  totalSpeed,
  type Workload,
  type WorkloadDefinition,
} from '../workload.ts';
import {
  between,
  concat,
  exponentialMs,
  randomTokens,
  TEMPLATE_HEAD,
  TEMPLATE_TAIL,
} from './text.ts';

const CONVERSATIONS_PER_SEC = 0.8;
const DURATION_MS = 40_000;
const THINK_MS = 3_000;
const SYSTEM_PROMPT_TOKENS = 250;
const SYSTEM_PROMPTS = 3;

interface Conversation {
  rng: Rng;
  turnsLeft: number;
}

/** Conversations of three to eight turns: each turn's prompt is everything said so far and a new question. */
export const multiTurn: WorkloadDefinition = {
  name: 'multi-turn',
  title:
    'conversations of 3 to 8 turns on one of three system prompts, 3 s of thought between turns',
  workers: equalWorkers(2, 926),
  create: ({ seed, workers, durationMs = DURATION_MS }) =>
    new Conversations(seed, totalSpeed(workers), durationMs),
};

class Conversations implements Workload {
  readonly #seed: number;
  readonly #meanMs: number;
  readonly #durationMs: number;
  readonly #open = new Map<number, Conversation>();

  constructor(seed: number, speed: number, durationMs: number) {
    this.#seed = seed;
    this.#durationMs = durationMs;
    this.#meanMs = 1000 / (CONVERSATIONS_PER_SEC * speed);
  }

  *arrivals(): Generator<Arrival> {
    const rng = createRng(this.#seed);
    const systemPrompts = Array.from({ length: SYSTEM_PROMPTS }, () =>
      randomTokens(rng, SYSTEM_PROMPT_TOKENS),
    );
    let tag = 0;
    for (
      let atMs = exponentialMs(rng, this.#meanMs);
      atMs < this.#durationMs;
      atMs += exponentialMs(rng, this.#meanMs)
    ) {
      const conversation = { rng: rng.fork(), turnsLeft: between(rng, 3, 8) };
      const systemPrompt = systemPrompts[rng.int(SYSTEM_PROMPTS)]!;
      this.#open.set(tag, conversation);
      yield this.#ask(conversation, atMs, systemPrompt, tag++, false);
    }
  }

  onFinished({ request, outputTokens, atMs }: Parameters<Workload['onFinished']>[0]): Arrival[] {
    const conversation = this.#open.get(request.tag);
    if (conversation === undefined || outputTokens.length === 0 || conversation.turnsLeft === 0) {
      this.#open.delete(request.tag);
      return [];
    }
    const said = concat(request.tokens, outputTokens);
    const thoughtMs = exponentialMs(conversation.rng, THINK_MS);
    return [this.#ask(conversation, atMs + thoughtMs, said, request.tag, true)];
  }

  #ask(
    conversation: Conversation,
    atMs: number,
    said: Uint32Array,
    tag: number,
    isRepeat: boolean,
  ): Arrival {
    const { rng } = conversation;
    conversation.turnsLeft--;
    const question = randomTokens(rng, between(rng, 40, 300));
    const request = {
      tokens: concat(said, TEMPLATE_HEAD, question, TEMPLATE_TAIL),
      maxTokens: 256,
      ignoreEos: false,
      seed: rng.u32(),
      isRepeat,
      tag,
    };
    return { atMs, request };
  }
}
