import { connect } from 'node:net';
import { TransferError } from './errors.ts';
import type { LinkProbe, ProbeOptions } from './types.ts';
import {
  HEAD_BYTES,
  MAGIC,
  MAX_PROBE_BYTES,
  parseEndpoint,
  REQUEST,
  readHead,
  STATUS,
  writeHead,
} from './wire.ts';

/**
 * Measures one way of a link: asks the transfer server at `endpoint` for some bytes and takes the time. Rejects with a
 * TransferError whose message says what is wrong; never takes longer than its limit.
 */
export function probeLink(endpoint: string, options: ProbeOptions): Promise<LinkProbe> {
  const address = parseEndpoint(endpoint);
  if (address === undefined) {
    const message = `"${endpoint}" is not host:port`;
    return Promise.reject(new TransferError('TRANSFER_UNREACHABLE', message));
  }
  const bytes = Math.max(1, Math.min(Math.floor(options.bytes), MAX_PROBE_BYTES));
  return new Promise((resolve, reject) => {
    const meter = new Meter(bytes);
    const socket = connect(address);
    const end = (settle: () => void): void => {
      clearTimeout(timer);
      socket.destroy();
      settle();
    };
    const fail = (error: TransferError): void => end(() => reject(error));
    const timer = setTimeout(() => {
      const message = `${endpoint}: no answer of ${bytes} bytes within ${options.timeoutMs} ms`;
      fail(new TransferError('TRANSFER_TIMEOUT', message));
    }, options.timeoutMs);
    socket.setNoDelay(true);
    socket.once('connect', () => socket.write(writeHead([MAGIC, REQUEST.probe, bytes, 0])));
    socket.on('error', (error) => {
      fail(new TransferError('TRANSFER_UNREACHABLE', `${endpoint}: ${error.message}`, error));
    });
    socket.on('close', () => {
      fail(new TransferError('TRANSFER_BROKEN', `${endpoint} closed before the last byte`));
    });
    socket.on('data', (chunk) => {
      const result = meter.take(chunk);
      if (result === 'more') return;
      if (result instanceof TransferError) fail(result);
      else end(() => resolve(result));
    });
  });
}

/** Reckons the rate from what comes behind the first packets: those were sent while the clock did not run yet. */
class Meter {
  readonly #bytes: number;
  readonly #beganMs = performance.now();
  #head: Buffer = Buffer.alloc(0);
  #firstMs: number | undefined;
  #firstBytes = 0;
  #taken = 0;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  take(chunk: Buffer): LinkProbe | TransferError | 'more' {
    let payload = chunk.length;
    if (this.#firstMs === undefined) {
      this.#head = Buffer.concat([this.#head, chunk]);
      if (this.#head.length < HEAD_BYTES) return 'more';
      const [magic, status, bytes] = readHead(this.#head);
      if (magic === MAGIC && status === STATUS.busy) {
        return new TransferError('TRANSFER_BUSY', 'the transfer server serves others');
      }
      if (magic !== MAGIC || status !== STATUS.probe || bytes !== this.#bytes) {
        return new TransferError('TRANSFER_REFUSED', 'what answers there is no transfer server');
      }
      payload = this.#head.length - HEAD_BYTES;
      this.#firstMs = performance.now();
      this.#firstBytes = payload;
    }
    this.#taken += payload;
    return this.#taken < this.#bytes ? 'more' : this.#result(this.#firstMs);
  }

  #result(firstMs: number): LinkProbe {
    const nowMs = performance.now();
    const latencyMs = firstMs - this.#beganMs;
    const rest = this.#taken - this.#firstBytes;
    const bytesPerMs =
      rest > 0 && nowMs > firstMs
        ? rest / (nowMs - firstMs)
        : this.#taken / Math.max(nowMs - this.#beganMs, 1e-3);
    return { bytesPerMs, latencyMs };
  }
}
