import { type AddressInfo, createServer, type Socket } from 'node:net';
import { BlockContent } from './block-content.ts';
import { createTransferServer } from './transfer-server.ts';
import type { StagedFetch, StagedSource, TransferServer, TransferServerOptions } from './types.ts';
import { createDigest, MAGIC, STATUS, writeHead } from './wire.ts';

/** What the tests of this folder share. */

/** Hash words of `blocks` blocks. */
export function hashesOf(blocks: number, salt = 0): Uint32Array {
  return Uint32Array.from({ length: blocks * 2 }, (_, at) => Math.imul(at + 1 + salt, 0x9e3779b1));
}

/** One staged prompt "t" and how its fetches ended. */
export class OneStaged implements StagedSource {
  readonly ends: string[] = [];
  readonly hashes: Uint32Array;
  readonly blockBytes: number;
  close: () => void = () => {};

  constructor(hashes: Uint32Array, blockBytes: number) {
    this.hashes = hashes;
    this.blockBytes = blockBytes;
  }

  open(transferId: string): StagedFetch | string {
    if (transferId !== 't') return 'no such KV is staged here';
    return {
      hashes: this.hashes,
      blockBytes: this.blockBytes,
      end: (outcome) => this.ends.push(outcome),
      onGone: (close) => {
        this.close = close;
      },
    };
  }
}

/** Runs `use` with a server of `staged`. */
export async function withServer(
  staged: StagedSource | undefined,
  use: (server: TransferServer) => Promise<void>,
  limits: Pick<TransferServerOptions, 'maxSends' | 'maxConnections'> = {},
): Promise<void> {
  const options = staged === undefined ? limits : { ...limits, staged };
  const server = await createTransferServer({ host: '127.0.0.1', port: 0, ...options });
  try {
    await use(server);
  } finally {
    await server.close();
  }
}

/** Runs `use` with a server that hands each connection to `onSocket`. */
export async function withPeer(
  onSocket: (socket: Socket) => void,
  use: (endpoint: string) => Promise<void>,
): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    onSocket(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = AddressOf(server.address());
  try {
    await use(`127.0.0.1:${port}`);
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
}

function AddressOf(address: string | AddressInfo | null): AddressInfo {
  if (address === null || typeof address === 'string') throw new Error('the server listens');
  return address;
}

/** What an honest server sends: the answer, then head, contents and digest of each block. */
export function honestParts(hashes: Uint32Array, blockBytes: number, fromBlock = 0): Buffer[] {
  const blocks = hashes.length / 2;
  const parts = [writeHead([MAGIC, STATUS.fetch, blocks - fromBlock, blockBytes])];
  for (let at = fromBlock; at < blocks; at++) {
    const content = new BlockContent(hashes[at * 2]!, hashes[at * 2 + 1]!, blockBytes);
    const head = writeHead([at, blockBytes, hashes[at * 2]!, hashes[at * 2 + 1]!]);
    const slices = Array.from({ length: content.slices }, (_, slice) => content.slice(slice));
    const payload = Buffer.concat(slices.flat());
    const digest = createDigest();
    digest.update(head);
    digest.update(payload);
    parts.push(head, payload, digest.finish());
  }
  return parts;
}
