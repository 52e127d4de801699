import { hashBlocks, hashSeed } from '@busbar/blocks';
import { decode } from '@msgpack/msgpack';
import { Dealer } from 'zeromq';
import { z } from 'zod';

const RECEIVE_MS = 10_000;
const END = 2n ** 64n - 1n;

const hashSchema = z.union([z.int(), z.bigint()]).transform(BigInt);
const eventSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('BlockStored'),
    block_hashes: z.array(hashSchema),
    parent_block_hash: hashSchema.nullable(),
    token_ids: z.array(z.int()),
    block_size: z.int(),
  }),
  z.object({ type: z.literal('BlockRemoved'), block_hashes: z.array(hashSchema) }),
  z.object({ type: z.literal('AllBlocksCleared') }),
]);
const batchSchema = z.tuple([z.number(), z.array(eventSchema)]).rest(z.unknown());
const sourcesSchema = z.object({ 0: z.object({ replay_endpoint: z.string() }) });

export interface Announced {
  /** Our hashes of the blocks that the engine has, by its own word. */
  blocks: Set<bigint>;
  stored: number;
  removed: number;
  clears: number;
}

/**
 * Everything that a vLLM has announced since its start, asked for at its replay endpoint and counted block by block the plainest way.
 * Prompts without adapter and salt only.
 */
export async function announcedBlocks(vllmUrl: string): Promise<Announced> {
  const answer: unknown = await (await fetch(`${vllmUrl}/kv_event_sources`)).json();
  const endpoint = sourcesSchema.parse(answer)[0].replay_endpoint;
  const tokensOf = new Map<bigint, number[]>();
  const announced = { blocks: new Set<bigint>(), stored: 0, removed: 0, clears: 0 };
  let held: bigint[] = [];
  let blockSize = 1;
  for await (const event of replayedEvents(endpoint)) {
    if (event.type === 'AllBlocksCleared') {
      held = [];
      announced.clears++;
    } else if (event.type === 'BlockRemoved') {
      for (const hash of event.block_hashes) held.splice(held.indexOf(hash), 1);
      announced.removed += event.block_hashes.length;
    } else {
      blockSize = event.block_size;
      let tokens = tokensOf.get(event.parent_block_hash ?? -1n) ?? [];
      for (const [i, hash] of event.block_hashes.entries()) {
        tokens = [...tokens, ...event.token_ids.slice(i * blockSize, (i + 1) * blockSize)];
        tokensOf.set(hash, tokens);
        held.push(hash);
      }
      announced.stored += event.block_hashes.length;
    }
  }
  for (const hash of held) {
    const words = hashBlocks(Uint32Array.from(tokensOf.get(hash)!), blockSize, hashSeed());
    announced.blocks.add(toBigInts(words).at(-1)!);
  }
  return announced;
}

export function toBigInts(words: Uint32Array): bigint[] {
  return Array.from({ length: words.length / 2 }, (_, i) => {
    return (BigInt(words[2 * i + 1]!) << 32n) | BigInt(words[2 * i]!);
  });
}

async function* replayedEvents(endpoint: string): AsyncGenerator<z.infer<typeof eventSchema>> {
  const dealer = new Dealer({ linger: 0, receiveTimeout: RECEIVE_MS });
  try {
    dealer.connect(endpoint);
    await dealer.send([new Uint8Array(), new Uint8Array(8)]);
    for (;;) {
      const frames = await dealer.receive();
      const sequence = frames.at(-2)!.readBigUInt64BE();
      if (sequence === END) return;
      const [, events] = batchSchema.parse(decode(frames.at(-1)!, { useBigInt64: true }));
      yield* events;
    }
  } finally {
    dealer.close();
  }
}
