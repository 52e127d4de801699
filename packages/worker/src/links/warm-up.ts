import type { Rng } from '@busbar/base';
import type { Subscription } from '@busbar/bus';
import {
  decodeTokenBatch,
  decodeWorkAck,
  encodeCancel,
  encodeWork,
  limit,
  type StreamDelta,
  type WorkerInfo,
  type WorkHeader,
} from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import type { Peer } from './peer-watch.ts';

/** Proves the way of KV from one prefill worker; rejects with a sentence when nothing came over it. */
export type WarmUpLink = (peer: Peer, signal: AbortSignal) => Promise<void>;

/** Ids of single bytes, which every vocabulary has. */
const TOKEN_IDS = 256;
const PREFILL_STREAM = 1;
const DECODE_STREAM = 2;

/**
 * A split request of one block and one token, in the way in which a frontend would send it: the engines connect before a client waits
 * for it. Its prompt is a new one each time, because a decode engine fetches nothing that it has.
 */
export function createWarmUp(context: ServiceContext, own: WorkerInfo): WarmUpLink {
  const rng = context.rng.fork();
  return async (peer, signal) => {
    signal.throwIfAborted();
    const warmUp = new WarmUp(context, own, peer, rng);
    try {
      await warmUp.run(signal);
    } finally {
      warmUp.close();
    }
  };
}

class WarmUp {
  readonly #context: ServiceContext;
  readonly #own: WorkerInfo;
  readonly #peer: Peer;
  readonly #tokens: Uint32Array;
  /** In the place of a frontend's id; no process has it. */
  readonly #askerId: string;
  readonly #subscription: Subscription;
  readonly #waiters = new Map<number, (last: StreamDelta) => void>();
  #isFetched = false;

  constructor(context: ServiceContext, own: WorkerInfo, peer: Peer, rng: Rng) {
    const { bus, subjects } = context;
    this.#context = context;
    this.#own = own;
    this.#peer = peer;
    this.#tokens = Uint32Array.from({ length: own.blockSize + 1 }, () => rng.int(TOKEN_IDS));
    this.#askerId = `warm-up-${rng.u32().toString(36)}-${rng.u32().toString(36)}`;
    this.#subscription = bus.subscribe(subjects.tokensTo(this.#askerId), ({ data }) => {
      for (const delta of decodeTokenBatch(data).deltas) {
        if (delta.finish !== 'none') this.#waiters.get(delta.streamId)?.(delta);
      }
    });
  }

  async run(signal: AbortSignal): Promise<void> {
    const prefillWorkerId = this.#peer.id;
    const stageKv = { transferId: this.#askerId };
    const prefill = { streamId: PREFILL_STREAM, stageKv };
    const { transfer } = await this.#leg(prefillWorkerId, prefill, signal);
    if (transfer === undefined) throw new Error(`${prefillWorkerId} kept no KV`);
    const kvSource = { prefillWorkerId, transfer, validForMs: limit('stagedKvMs') };
    await this.#leg(this.#context.id, { streamId: DECODE_STREAM, kvSource }, signal);
    this.#isFetched = true;
  }

  /** Whatever is left of it at either side is given up. */
  close(): void {
    const { bus, subjects, id } = this.#context;
    this.#subscription.unsubscribe();
    if (bus.status !== 'connected') return;
    const staged = encodeCancel(this.#askerId, [PREFILL_STREAM], this.#isFetched);
    bus.publish(subjects.cancel(this.#peer.id), staged);
    if (!this.#isFetched) {
      bus.publish(subjects.cancel(id), encodeCancel(this.#askerId, [DECODE_STREAM]));
    }
  }

  /** The end of one leg. */
  async #leg(
    workerId: string,
    leg: Pick<WorkHeader, 'streamId' | 'stageKv' | 'kvSource'>,
    signal: AbortSignal,
  ): Promise<StreamDelta> {
    // A signal that fired between the legs tells nobody any more, and the wait for an end would have no limit.
    signal.throwIfAborted();
    const { bus, subjects } = this.#context;
    const header: WorkHeader = {
      ...leg,
      frontendId: this.#askerId,
      decisionId: this.#askerId,
      model: this.#own.model,
      promptTokens: this.#tokens.length,
      maxTokens: 1,
      sampling: { temperature: 0 },
      isWarmUp: true,
    };
    const end = this.#endOf(leg.streamId, signal);
    // It may fail while the acknowledgement is waited for.
    end.catch(() => {});
    const message = await bus.request(subjects.work(workerId), encodeWork(header, this.#tokens), {
      timeoutMs: limit('workAckTimeoutMs'),
    });
    const ack = decodeWorkAck(message.data);
    if (ack.kind === 'refused') throw new Error(`${workerId} refused: ${ack.message}`);
    const last = await end;
    if (last.finish === 'length' || last.finish === 'stop') return last;
    throw new Error(`${workerId}: ${last.error?.message ?? `the request ended by ${last.finish}`}`);
  }

  #endOf(streamId: number, signal: AbortSignal): Promise<StreamDelta> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => reject(new Error('it took too long'));
      signal.addEventListener('abort', onAbort, { once: true });
      this.#waiters.set(streamId, (last) => {
        signal.removeEventListener('abort', onAbort);
        resolve(last);
      });
    });
  }
}
