import { BlockContent } from './block-content.ts';
import type { PieceWriter } from './piece-writer.ts';
import type { StagedFetch } from './types.ts';
import { createDigest, writeHead } from './wire.ts';

/** Sends the blocks of a prompt from one of them to the last: head, contents, and the digest of both. */
export async function sendBlocks(
  writer: PieceWriter,
  fetch: StagedFetch,
  fromBlock: number,
): Promise<void> {
  const { hashes, blockBytes } = fetch;
  for (let at = fromBlock; at * 2 < hashes.length; at++) {
    const low = hashes[at * 2]!;
    const high = hashes[at * 2 + 1]!;
    const content = new BlockContent(low, high, blockBytes);
    const digest = createDigest();
    const head = writeHead([at, blockBytes, low, high]);
    digest.update(head);
    let before = [head];
    for (let slice = 0; slice < content.slices; slice++) {
      const pieces = content.slice(slice);
      for (const piece of pieces) digest.update(piece);
      await writer.write([...before, ...pieces]);
      before = [];
    }
    await writer.write([digest.finish()]);
  }
}
