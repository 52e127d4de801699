// What a vLLM says of its KV cache, out of what the mock engine says of its own. Only tests import it.
import { BlockHasher, hashSeed } from '@busbar/blocks';
import type { KvChange } from '@busbar/protocol';
import type { EngineRequest } from '../port.ts';
import type { FakePublisher } from './kv-events/fake-publisher.testing.ts';

/** Engine hashes mean nothing to others: these are not the mock engine's own. */
const DISGUISE = 0x5a5a_0000_1234_0000n;

interface KnownBlock {
  tokens: number[];
  parent: bigint | undefined;
  lora: string | undefined;
  salt: string | undefined;
}

interface Sequence {
  request: EngineRequest;
  tokens: number[];
  hasher: BlockHasher;
  hashed: number;
}

export class FakeEvents {
  readonly #blockSize: number;
  readonly #publisher: FakePublisher | undefined;
  readonly #sequences = new Map<number, Sequence>();
  readonly #blocks = new Map<bigint, KnownBlock>();
  #changes: KvChange[] = [];

  constructor(blockSize: number, publisher: FakePublisher | undefined) {
    this.#blockSize = blockSize;
    this.#publisher = publisher;
  }

  begin(request: EngineRequest): void {
    const hasher = new BlockHasher(this.#blockSize, hashSeed(request));
    const sequence = { request, tokens: [...request.tokens], hasher, hashed: 0 };
    this.#sequences.set(request.key, sequence);
    this.#learn(sequence);
  }

  grow(key: number, tokens: Uint32Array): void {
    const sequence = this.#sequences.get(key);
    if (sequence === undefined) return;
    sequence.tokens.push(...tokens);
    this.#learn(sequence);
  }

  end(key: number): void {
    this.#sequences.delete(key);
  }

  add(changes: readonly KvChange[]): void {
    this.#changes.push(...changes);
  }

  async publish(): Promise<void> {
    const events = this.#changes.flatMap((change) => this.#toEvents(change));
    this.#changes = [];
    if (events.length > 0) await this.#publisher?.publish(events);
  }

  close(): void {
    this.#publisher?.close();
  }

  #learn(sequence: Sequence): void {
    const whole = Math.floor(sequence.tokens.length / this.#blockSize);
    if (whole === sequence.hashed) return;
    const hashes = join(sequence.hasher.hash(Uint32Array.from(sequence.tokens)));
    for (let at = sequence.hashed; at < whole; at++) {
      this.#blocks.set(hashes[at]!, {
        tokens: sequence.tokens.slice(at * this.#blockSize, (at + 1) * this.#blockSize),
        parent: hashes[at - 1],
        lora: sequence.request.lora,
        salt: sequence.request.cacheSalt,
      });
    }
    sequence.hashed = whole;
  }

  #toEvents(change: KvChange): unknown[] {
    if (change.kind === 'cleared') return [{ type: 'AllBlocksCleared' }];
    const hashes = join(change.hashes);
    const block_hashes = hashes.map((hash) => hash ^ DISGUISE);
    if (change.kind === 'removed') {
      return block_hashes.map((hash) => ({
        type: 'BlockRemoved',
        block_hashes: [hash],
        medium: 'GPU',
      }));
    }
    const blocks = hashes.map((hash) => this.#blocks.get(hash));
    const [first] = blocks;
    if (first === undefined) throw new Error('the fake stores a block that it does not know');
    return [
      {
        type: 'BlockStored',
        block_hashes,
        parent_block_hash: first.parent === undefined ? null : first.parent ^ DISGUISE,
        token_ids: blocks.flatMap((block) => block?.tokens ?? []),
        block_size: this.#blockSize,
        lora_id: null,
        medium: 'GPU',
        lora_name: first.lora ?? null,
        extra_keys: blocks.map((block) => keysOf(block)),
      },
    ];
  }
}

function keysOf(block: KnownBlock | undefined): unknown[] | null {
  const lora = block?.lora === undefined ? [] : [block.lora];
  const isRoot = block?.parent === undefined;
  const salt = block?.salt === undefined || !isRoot ? [] : [block.salt];
  return lora.length + salt.length === 0 ? null : [...lora, ...salt];
}

function join(words: Uint32Array): bigint[] {
  return Array.from(
    { length: words.length >> 1 },
    (_, at) => (BigInt(words[2 * at + 1]!) << 32n) | BigInt(words[2 * at]!),
  );
}
