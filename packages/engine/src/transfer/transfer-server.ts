import { createServer, type Server, type Socket } from 'node:net';
import { limit } from '@busbar/protocol';
import { PieceWriter } from './piece-writer.ts';
import { RequestReader, type TransferRequest } from './request-reader.ts';
import { sendBlocks } from './send-blocks.ts';
import { SendSlots } from './send-slots.ts';
import type { StagedFetch, StagedSource, TransferServer, TransferServerOptions } from './types.ts';
import { formatEndpoint, MAGIC, MAX_PROBE_BYTES, REQUEST, STATUS, writeHead } from './wire.ts';

/** Prompts that are sent at once. Each holds a megabyte of buffers at most, and fewer fill any link. */
const MAX_SENDS = 64;
/** All that 64 decode workers may fetch at once, sent or waiting; a waiting one costs a few kilobytes. More are told to come later. */
const MAX_CONNECTIONS = 64 * limit('kvFetches');
/** How often a fetch hears that it still waits: well within what its other side takes for silence. */
const WAITING_MS = 2_000;
/** Who connects says at once what he wants; who has it all, that he has. */
const REQUEST_MS = 5_000;
/** A link on which nothing moves for so long carries no transfer. */
const STALL_MS = 10_000;
const SEND_BUFFER_BYTES = 1_048_576;

/** Opens the port. Rejects with the error of the operating system when it cannot. */
export function createTransferServer(options: TransferServerOptions): Promise<TransferServer> {
  const sockets = new Set<Socket>();
  const slots = new SendSlots(options.maxSends ?? MAX_SENDS);
  const maxConnections = options.maxConnections ?? MAX_CONNECTIONS;
  const server = createServer({ highWaterMark: SEND_BUFFER_BYTES, noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    new Connection(socket, options.staged, slots, sockets.size > maxConnections).open();
  });
  server.maxConnections = 2 * maxConnections;
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: options.host, port: options.port }, () => {
      server.off('error', reject);
      // What fails later is one connection that was not accepted; its other side hears of it.
      server.on('error', () => {});
      resolve({
        endpoint: formatEndpoint(options.advertisedHost ?? options.host, portOf(server)),
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            for (const socket of sockets) socket.destroy();
          }),
      });
    });
  });
}

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** One question and its answer. */
class Connection {
  readonly #socket: Socket;
  readonly #staged: StagedSource | undefined;
  readonly #slots: SendSlots;
  readonly #isCrowded: boolean;
  readonly #requests = new RequestReader();
  #deadline: NodeJS.Timeout | undefined;
  #fetch: StagedFetch | undefined;
  /** Blocks that were sent, and of which the other side must say that it has them. */
  #sentBlocks: number | undefined;
  #isBusy = false;
  #waiting: NodeJS.Timeout | undefined;

  constructor(
    socket: Socket,
    staged: StagedSource | undefined,
    slots: SendSlots,
    isCrowded: boolean,
  ) {
    this.#socket = socket;
    this.#staged = staged;
    this.#slots = slots;
    this.#isCrowded = isCrowded;
  }

  open(): void {
    const socket = this.#socket;
    socket.on('error', () => {});
    socket.on('data', (chunk) => this.#onData(chunk));
    socket.on('close', () => {
      clearTimeout(this.#deadline);
      this.#endFetch('broken');
    });
    socket.setTimeout(STALL_MS, () => socket.destroy());
    this.#expect(REQUEST_MS);
  }

  #expect(ms: number): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => this.#socket.destroy(), ms);
  }

  #onData(chunk: Buffer): void {
    const request = this.#requests.push(chunk);
    if (request === 'more') return;
    if (request === 'bad') this.#refuse('the request does not follow the protocol');
    else if (this.#isCrowded) this.#socket.end(writeHead([MAGIC, STATUS.busy, 0, 0]));
    else this.#answer(request);
  }

  #answer(request: TransferRequest): void {
    const { kind, value } = request;
    if (kind === REQUEST.received && this.#sentBlocks !== undefined) {
      if (value !== this.#sentBlocks) return this.#refuse(`${this.#sentBlocks} blocks were sent`);
      this.#endFetch('received');
      this.#socket.end(writeHead([MAGIC, STATUS.done, 0, 0]));
      return;
    }
    if (this.#isBusy) return this.#refuse('one connection carries one transfer');
    this.#isBusy = true;
    if (kind === REQUEST.probe) this.#startProbe(value);
    else if (kind === REQUEST.fetch) this.#startFetch(request.transferId, value);
    else this.#refuse('nothing was sent yet');
  }

  #startProbe(bytes: number): void {
    if (bytes < 1 || bytes > MAX_PROBE_BYTES) {
      return this.#refuse(`a probe has 1 to ${MAX_PROBE_BYTES} bytes`);
    }
    this.#expect(limit('kvFetchMs'));
    this.#socket.write(writeHead([MAGIC, STATUS.probe, bytes, 0]));
    this.#run(async (writer) => {
      await writer.noise(bytes);
      this.#socket.end();
    });
  }

  #startFetch(transferId: string, fromBlock: number): void {
    const fetch = this.#staged?.open(transferId) ?? 'this worker stages nothing';
    if (typeof fetch === 'string') return this.#refuse(fetch);
    const blocks = fetch.hashes.length / 2;
    if (fromBlock >= blocks) {
      fetch.end('broken');
      return this.#refuse(`the prompt has ${blocks} blocks, block ${fromBlock} is not among them`);
    }
    this.#fetch = fetch;
    fetch.onGone(() => this.#socket.destroy());
    this.#expect(limit('kvFetchMs'));
    const send = (): void => this.#send(fetch, fromBlock);
    if (this.#slots.enter(this, send)) return send();
    const tell = (): void => void this.#socket.write(writeHead([MAGIC, STATUS.waiting, 0, 0]));
    tell();
    this.#waiting = setInterval(tell, WAITING_MS);
  }

  #send(fetch: StagedFetch, fromBlock: number): void {
    clearInterval(this.#waiting);
    const count = fetch.hashes.length / 2 - fromBlock;
    this.#socket.write(writeHead([MAGIC, STATUS.fetch, count, fetch.blockBytes]));
    this.#run(async (writer) => {
      await sendBlocks(writer, fetch, fromBlock);
      this.#sentBlocks = count;
      this.#expect(REQUEST_MS + STALL_MS);
    });
  }

  /** What breaks off is over with the connection. */
  #run(send: (writer: PieceWriter) => Promise<void>): void {
    send(new PieceWriter(this.#socket)).catch(() => this.#socket.destroy());
  }

  #refuse(reason: string): void {
    const text = Buffer.from(reason);
    this.#endFetch('broken');
    this.#socket.end(Buffer.concat([writeHead([MAGIC, STATUS.refused, text.length, 0]), text]));
  }

  #endFetch(outcome: 'received' | 'broken'): void {
    const fetch = this.#fetch;
    this.#fetch = undefined;
    clearInterval(this.#waiting);
    fetch?.end(outcome);
    this.#slots.leave(this);
  }
}
