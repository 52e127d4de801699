import { BlockContent } from './block-content.ts';
import { TransferError } from './errors.ts';
import {
  createDigest,
  DIGEST_BYTES,
  type Digest,
  HEAD_BYTES,
  MAGIC,
  MAX_TEXT_BYTES,
  readHead,
  STATUS,
} from './wire.ts';

/** What a fetch must bring. */
export interface ExpectedBlocks {
  fromBlock: number;
  /** Two words for each block of the prompt, those before `fromBlock` too. */
  hashes: Uint32Array;
  blockBytes: number;
}

type Part = 'answer' | 'refusal' | 'head' | 'payload' | 'digest' | 'complete';

/**
 * Takes a stream of blocks to pieces and checks all of it as it comes: that each block is the next one of those that were asked for,
 * that its contents are the KV of its hash, and that the sender's digest is the digest of what arrived. Throws a TransferError that says
 * what is wrong. Keeps nothing of the payload: a mock engine has nowhere to put it.
 */
export class BlockReceiver {
  readonly #expected: ExpectedBlocks;
  readonly #blocks: number;
  readonly #small = Buffer.alloc(Math.max(HEAD_BYTES, DIGEST_BYTES, MAX_TEXT_BYTES));
  #part: Part = 'answer';
  /** Bytes of the part that arrived, and that it has. */
  #have = 0;
  #need = HEAD_BYTES;
  #at: number;
  #content: BlockContent;
  #digest: Digest = createDigest();
  #bytes = 0;
  #isWaiting = false;

  constructor(expected: ExpectedBlocks) {
    this.#expected = expected;
    this.#blocks = expected.hashes.length / 2;
    this.#at = expected.fromBlock;
    this.#content = this.#contentAt();
  }

  get isComplete(): boolean {
    return this.#part === 'complete';
  }

  /** The other side serves others first and has said so. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** Payload that arrived in blocks found right. */
  get bytes(): number {
    return this.#bytes;
  }

  get received(): number {
    return this.#at - this.#expected.fromBlock;
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.isComplete) throw corrupt('more came than the blocks that were asked for');
      const length = Math.min(this.#need - this.#have, chunk.length - at);
      const piece = chunk.subarray(at, at + length);
      if (this.#part === 'payload') this.#check(piece);
      else piece.copy(this.#small, this.#have);
      this.#have += length;
      at += length;
      if (this.#have === this.#need) this.#finishPart();
    }
  }

  #check(piece: Buffer): void {
    if (!this.#content.matches(this.#have, piece)) {
      throw corrupt(`the contents of block ${this.#at} are not the KV of its hash`);
    }
    this.#digest.update(piece);
  }

  #finishPart(): void {
    const small = this.#small.subarray(0, this.#need);
    if (this.#part === 'answer') this.#onAnswer(small);
    else if (this.#part === 'refusal') throw refused(small.toString());
    else if (this.#part === 'head') this.#onHead(small);
    else if (this.#part === 'payload') this.#begin('digest', DIGEST_BYTES);
    else this.#onDigest(small);
  }

  #onAnswer(head: Buffer): void {
    const [magic, status, a, b] = readHead(head);
    if (magic !== MAGIC) throw refused('what answers there is no transfer server');
    if (status === STATUS.refused) {
      if (a < 1 || a > MAX_TEXT_BYTES) throw refused('it was refused without a reason');
      return this.#begin('refusal', a);
    }
    if (status === STATUS.busy) throw new TransferError('TRANSFER_BUSY', 'it serves others');
    this.#isWaiting = status === STATUS.waiting;
    if (this.#isWaiting) return this.#begin('answer', HEAD_BYTES);
    const { fromBlock, blockBytes } = this.#expected;
    if (status !== STATUS.fetch) throw corrupt('the answer is to another question');
    if (a !== this.#blocks - fromBlock || b !== blockBytes) {
      const wanted = `${this.#blocks - fromBlock} blocks of ${blockBytes} bytes were asked for`;
      throw corrupt(`${wanted}, ${a} of ${b} are offered`);
    }
    this.#begin('head', HEAD_BYTES);
  }

  #onHead(head: Buffer): void {
    const [position, bytes, low, high] = readHead(head);
    const { hashes, blockBytes } = this.#expected;
    if (position !== this.#at) throw corrupt(`block ${position} came in the place of ${this.#at}`);
    if (bytes !== blockBytes) throw corrupt(`block ${position} has ${bytes} bytes`);
    if (low !== hashes[position * 2] || high !== hashes[position * 2 + 1]) {
      throw corrupt(`block ${position} is of another prompt`);
    }
    this.#content = this.#contentAt();
    this.#digest = createDigest();
    this.#digest.update(head);
    this.#begin('payload', bytes);
  }

  #onDigest(digest: Buffer): void {
    if (!this.#digest.finish().equals(digest)) {
      throw corrupt(`the digest of block ${this.#at} does not fit what arrived`);
    }
    this.#bytes += this.#expected.blockBytes;
    this.#at++;
    if (this.#at < this.#blocks) this.#begin('head', HEAD_BYTES);
    else this.#begin('complete', 0);
  }

  #begin(part: Part, bytes: number): void {
    this.#part = part;
    this.#have = 0;
    this.#need = bytes;
  }

  #contentAt(): BlockContent {
    const { hashes, blockBytes } = this.#expected;
    return new BlockContent(hashes[this.#at * 2] ?? 0, hashes[this.#at * 2 + 1] ?? 0, blockBytes);
  }
}

function corrupt(message: string): TransferError {
  return new TransferError('TRANSFER_CORRUPT', message);
}

function refused(message: string): TransferError {
  return new TransferError('TRANSFER_REFUSED', message);
}
