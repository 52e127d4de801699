// Publishes as vLLM does: a PUB that connects or binds, a ROUTER that answers replays. Only tests import it.
import { encode } from '@msgpack/msgpack';
import type { Router, XPublisher } from 'zeromq';
import { loadZmq } from './zmq.ts';

const BLOCK_SIZE = 4;

export interface FakePublisherOptions {
  endpoint: string;
  replayEndpoint?: string;
  topic?: string;
  /** As vLLM does for an address with a wildcard. */
  binds?: boolean;
  /** Replays before vLLM 0.26 have no topic. */
  hasReplayTopic?: boolean;
  bufferSteps?: number;
}

export class FakePublisher {
  readonly #options: FakePublisherOptions;
  readonly #publisher: XPublisher;
  readonly #router: Router | undefined;
  #buffer: { sequence: number; payload: Uint8Array }[] = [];
  #sequence = 0;
  replayRequests = 0;

  private constructor(options: FakePublisherOptions, publisher: XPublisher, router?: Router) {
    this.#options = options;
    this.#publisher = publisher;
    this.#router = router;
  }

  static async open(options: FakePublisherOptions): Promise<FakePublisher> {
    const zmq = await loadZmq();
    // A PUB that also says when it has a subscriber: what is published before is lost.
    const publisher = new zmq.XPublisher({ linger: 0 });
    if (options.binds) await publisher.bind(options.endpoint);
    else publisher.connect(options.endpoint);
    let router: Router | undefined;
    if (options.replayEndpoint !== undefined) {
      router = new zmq.Router({ linger: 0 });
      await router.bind(options.replayEndpoint);
    }
    const fake = new FakePublisher(options, publisher, router);
    if (router !== undefined) void fake.#answerReplays(router);
    if (!options.binds) await publisher.receive();
    return fake;
  }

  /** Publishes one batch; `lost` ones go to the buffer only, as if the network had dropped them. */
  async publish(events: unknown[], { lost = false } = {}): Promise<void> {
    await this.publishPayload(encode([1.5, events, 0], { useBigInt64: true }), { lost });
  }

  async publishPayload(
    payload: Uint8Array,
    { lost = false, buffered = payload }: { lost?: boolean; buffered?: Uint8Array } = {},
  ): Promise<void> {
    const sequence = this.#sequence++;
    this.#buffer.push({ sequence, payload: buffered });
    const { bufferSteps = 100, topic = '' } = this.#options;
    this.#buffer = this.#buffer.slice(-bufferSteps);
    if (!lost) await this.#publisher.send([topic, sequenceBytes(BigInt(sequence)), payload]);
  }

  async sendFrames(frames: (string | Uint8Array)[]): Promise<void> {
    await this.#publisher.send(frames);
  }

  /** A new engine process on the same connection. */
  restart(): void {
    this.#sequence = 0;
    this.#buffer = [];
  }

  close(): void {
    this.#publisher.close();
    this.#router?.close();
  }

  async #answerReplays(router: Router): Promise<void> {
    const { topic = '', hasReplayTopic = true } = this.#options;
    const head = hasReplayTopic ? ['', topic] : [''];
    try {
      for await (const [client, , number] of router) {
        if (client === undefined || number === undefined) continue;
        this.replayRequests++;
        const from = Buffer.from(number).readBigUInt64BE();
        for (const { sequence, payload } of this.#buffer) {
          if (BigInt(sequence) < from) continue;
          await router.send([client, ...head, sequenceBytes(BigInt(sequence)), payload]);
        }
        const end = hasReplayTopic ? ['', ''] : [''];
        await router.send([client, ...end, sequenceBytes(2n ** 64n - 1n), '']);
      }
    } catch {
      // The socket was closed amid an answer.
    }
  }
}

/** A chain of blocks from the sequence's start, or one that follows `parent`; hash n has the tokens n, n, n, n. */
export function storedEvent(hashes: readonly number[], parent?: number): Record<string, unknown> {
  return {
    type: 'BlockStored',
    block_hashes: hashes,
    parent_block_hash: parent ?? null,
    token_ids: hashes.flatMap((hash) => Array.from({ length: BLOCK_SIZE }, () => hash)),
    block_size: BLOCK_SIZE,
    lora_id: null,
    medium: 'GPU',
    lora_name: null,
  };
}

export function removedEvent(...hashes: number[]): Record<string, unknown> {
  return { type: 'BlockRemoved', block_hashes: hashes, medium: 'GPU' };
}

function sequenceBytes(sequence: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, sequence);
  return bytes;
}
