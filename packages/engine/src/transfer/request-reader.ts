import { HEAD_BYTES, MAGIC, MAX_TEXT_BYTES, REQUEST, readHead } from './wire.ts';

export interface TransferRequest {
  kind: number;
  /** Bytes of a probe, first block of a fetch, blocks received. */
  value: number;
  transferId: string;
}

const KINDS: readonly number[] = Object.values(REQUEST);

/** Puts requests together from the pieces in which they arrive. Holds one of them at most. */
export class RequestReader {
  #pending: Buffer = Buffer.alloc(0);
  #isBad = false;

  /** The request that `chunk` completes. Whoever sends a second one before the answer to the first breaks the protocol. */
  push(chunk: Buffer): TransferRequest | 'more' | 'bad' {
    if (this.#isBad) return 'more';
    this.#pending = Buffer.concat([this.#pending, chunk]);
    const result = this.#read();
    if (result === 'bad') this.#isBad = true;
    return result;
  }

  #read(): TransferRequest | 'more' | 'bad' {
    if (this.#pending.length < HEAD_BYTES) return 'more';
    const [magic, kind, value, idBytes] = readHead(this.#pending);
    if (magic !== MAGIC || !KINDS.includes(kind) || idBytes > MAX_TEXT_BYTES) return 'bad';
    const end = HEAD_BYTES + idBytes;
    if (this.#pending.length < end) return 'more';
    if (this.#pending.length > end) return 'bad';
    const transferId = this.#pending.toString('utf8', HEAD_BYTES, end);
    this.#pending = Buffer.alloc(0);
    return { kind, value, transferId };
  }
}
