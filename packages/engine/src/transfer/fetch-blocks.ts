import { connect, type Socket } from 'node:net';
import { messageOf } from '@busbar/base';
import { BlockReceiver, type ExpectedBlocks } from './block-receiver.ts';
import { TransferError, type TransferErrorCode } from './errors.ts';
import { MAGIC, parseEndpoint, REQUEST, writeHead } from './wire.ts';

export interface FetchOptions extends ExpectedBlocks {
  endpoint: string;
  transferId: string;
  /** Limit of the whole fetch. */
  timeoutMs: number;
  /** Limit of a silence in it; absent takes 10 s. */
  stallMs?: number;
  /** Called when the other side serves others first, and again when the turn of this fetch has come. */
  onWait?: (isWaiting: boolean) => void;
}

/** How a fetch ended. `bytes` arrived in whole blocks and were found right. */
export interface FetchResult {
  bytes: number;
  ms: number;
  /** Absent: everything arrived. */
  error?: TransferError;
}

const STALL_MS = 10_000;
const CONNECT_MS = 5_000;
/** For the last words of a connection whose work is done. */
const LINGER_MS = 2_000;
/** The system fills up to 32 of these in one go before other work has its turn: 2 MiB of each connection, checked in about a millisecond. */
const RECEIVE_BUFFER_BYTES = 65_536;

/**
 * Fetches blocks of a staged prompt from a transfer server and checks them (`BlockReceiver`). Never rejects; ends within its
 * limits and at once when `signal` fires. The server hears that all arrived before this resolves without an error.
 */
export function fetchBlocks(options: FetchOptions, signal: AbortSignal): Promise<FetchResult> {
  return new Promise((resolve) => new BlockFetch(options, signal, resolve).start());
}

class BlockFetch {
  readonly #options: FetchOptions;
  readonly #signal: AbortSignal;
  readonly #resolve: (result: FetchResult) => void;
  readonly #receiver: BlockReceiver;
  readonly #beganMs = performance.now();
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #onAbort = (): void => this.#fail('TRANSFER_CANCELLED', 'the fetch was given up');
  #socket: Socket | undefined;
  #isConnected = false;
  #isOver = false;

  constructor(options: FetchOptions, signal: AbortSignal, resolve: (result: FetchResult) => void) {
    this.#options = options;
    this.#signal = signal;
    this.#resolve = resolve;
    this.#receiver = new BlockReceiver(options);
  }

  start(): void {
    const { endpoint, timeoutMs, stallMs = STALL_MS } = this.#options;
    const address = parseEndpoint(endpoint);
    if (this.#signal.aborted) return this.#onAbort();
    if (address === undefined) {
      return this.#fail('TRANSFER_UNREACHABLE', `"${endpoint}" is not host:port`);
    }
    this.#signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#limit(timeoutMs, `not complete within ${timeoutMs} ms`);
    const connecting = this.#limit(CONNECT_MS, `no connection within ${CONNECT_MS} ms`);
    const buffer = Buffer.allocUnsafeSlow(RECEIVE_BUFFER_BYTES);
    const socket = connect({
      ...address,
      noDelay: true,
      onread: {
        buffer,
        callback: (length) => {
          this.#onData(buffer.subarray(0, length));
          return true;
        },
      },
    });
    this.#socket = socket;
    socket.setTimeout(stallMs, () => {
      this.#fail('TRANSFER_TIMEOUT', `${endpoint}: nothing arrived for ${stallMs} ms`);
    });
    socket.once('connect', () => {
      clearTimeout(connecting);
      this.#isConnected = true;
      this.#request();
    });
    socket.on('error', (error) => {
      const code = this.#isConnected ? 'TRANSFER_BROKEN' : 'TRANSFER_UNREACHABLE';
      this.#fail(code, `${endpoint}: ${error.message}`);
    });
    socket.on('end', () => this.#onClose());
    socket.on('close', () => this.#onClose());
  }

  #request(): void {
    const id = Buffer.from(this.#options.transferId);
    const head = writeHead([MAGIC, REQUEST.fetch, this.#options.fromBlock, id.length]);
    this.#socket?.write(Buffer.concat([head, id]));
  }

  #onData(chunk: Buffer): void {
    if (this.#isOver) return;
    const wasWaiting = this.#receiver.isWaiting;
    try {
      this.#receiver.push(chunk);
    } catch (error) {
      const code = error instanceof TransferError ? error.code : 'TRANSFER_CORRUPT';
      return this.#fail(code, `${this.#options.endpoint}: ${messageOf(error)}`);
    }
    const { isWaiting } = this.#receiver;
    if (isWaiting !== wasWaiting) this.#options.onWait?.(isWaiting);
    if (this.#receiver.isComplete) this.#complete();
  }

  #complete(): void {
    const socket = this.#socket;
    socket?.end(writeHead([MAGIC, REQUEST.received, this.#receiver.received, 0]));
    this.#settle(undefined);
    const linger = setTimeout(() => socket?.destroy(), LINGER_MS);
    const destroy = (): void => {
      socket?.destroy();
    };
    this.#signal.addEventListener('abort', destroy, { once: true });
    socket?.once('close', () => {
      clearTimeout(linger);
      this.#signal.removeEventListener('abort', destroy);
    });
  }

  #onClose(): void {
    const { endpoint } = this.#options;
    this.#fail('TRANSFER_BROKEN', `${endpoint} closed after ${this.#receiver.received} blocks`);
  }

  #limit(ms: number, what: string): NodeJS.Timeout {
    const timer = setTimeout(() => {
      const code = this.#receiver.isWaiting ? 'TRANSFER_BUSY' : 'TRANSFER_TIMEOUT';
      this.#fail(code, `${this.#options.endpoint}: ${what}`);
    }, ms);
    this.#timers.push(timer);
    return timer;
  }

  #fail(code: TransferErrorCode, message: string): void {
    if (this.#isOver) return;
    this.#settle(new TransferError(code, message));
    this.#socket?.destroy();
  }

  #settle(error: TransferError | undefined): void {
    this.#isOver = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#signal.removeEventListener('abort', this.#onAbort);
    const { bytes } = this.#receiver;
    const ms = performance.now() - this.#beganMs;
    this.#resolve(error === undefined ? { bytes, ms } : { bytes, ms, error });
  }
}
