import type { EngineDelta } from '@busbar/engine';
import {
  encodeTokenBatch,
  limit,
  type StreamDelta,
  type TransferParams,
  transferParamsBytes,
} from '@busbar/protocol';
import type { WorkerMetrics } from './metrics.ts';
import type { Peer, Stream, Streams } from './streams.ts';

const ROW_BYTES = 16;
/** Of a row's error or transfer, as JSON with the stream id: names and braces. */
const EXTRA_BYTES = 128;
/** A character of a message is up to three bytes in UTF-8. */
const CHAR_BYTES = 3;
const TRANSFER_TOO_LARGE = {
  code: 'WORKER_FAULT',
  message: 'the parameters of the transfer are larger than a message may carry',
  retryable: true,
};

/** Such parameters are not sent: the stream ends with an error, and the KV has to be given up. */
export function isTransferTooLarge(transfer: TransferParams): boolean {
  return transferParamsBytes(transfer) > limit('transferParamsBytes');
}

/** Sends what an engine step produced: one message for each frontend that has a stream in it. */
export class TokenSender {
  readonly #streams: Streams;
  readonly #metrics: WorkerMetrics;
  readonly #publish: (subject: string, data: Uint8Array) => boolean;
  readonly #rows = new Map<Peer, StreamDelta[]>();

  constructor(
    streams: Streams,
    metrics: WorkerMetrics,
    publish: (subject: string, data: Uint8Array) => boolean,
  ) {
    this.#streams = streams;
    this.#metrics = metrics;
    this.#publish = publish;
  }

  /** `onEnd` is called for each stream that ended, after its last tokens went out. */
  send(deltas: readonly EngineDelta[], onEnd: (stream: Stream, delta: EngineDelta) => void): void {
    let tokens = 0;
    for (const delta of deltas) {
      const stream = this.#streams.get(delta.key);
      if (stream === undefined) continue;
      this.#add(stream, delta);
      if (stream.isWarmUp) continue;
      tokens += delta.tokens.length;
      if (delta.cachedTokens !== undefined) this.#metrics.cachedTokens.inc(delta.cachedTokens);
    }
    for (const [peer, rows] of this.#rows) {
      if (rows.length > 0) this.#sendRows(peer, rows);
      else this.#rows.delete(peer);
    }
    this.#metrics.steps.inc();
    this.#metrics.outputTokens.inc(tokens);
    for (const delta of deltas) {
      if (delta.finish === 'none') continue;
      const stream = this.#streams.get(delta.key);
      if (stream !== undefined) onEnd(stream, delta);
    }
  }

  #add(stream: Stream, { tokens, finish, cachedTokens, error, transfer }: EngineDelta): void {
    const row: StreamDelta = {
      streamId: stream.streamId,
      position: stream.position,
      tokens,
      finish,
    };
    if (cachedTokens !== undefined) row.cachedTokens = cachedTokens;
    if (error !== undefined) row.error = error;
    if (transfer !== undefined) addTransfer(row, transfer);
    stream.position += tokens.length;
    const rows = this.#rows.get(stream.peer);
    if (rows === undefined) this.#rows.set(stream.peer, [row]);
    else rows.push(row);
  }

  /** Empties `rows`, which is kept for the next step. */
  #sendRows(peer: Peer, rows: StreamDelta[]): void {
    let from = 0;
    let bytes = 0;
    for (let at = 0; at < rows.length; at++) {
      const rowBytes = sizeOf(rows[at]!);
      if (bytes + rowBytes > limit('messageBytes') && at > from) {
        this.#sendBatch(peer, rows.slice(from, at));
        from = at;
        bytes = 0;
      }
      bytes += rowBytes;
    }
    this.#sendBatch(peer, from === 0 ? rows : rows.slice(from));
    rows.length = 0;
  }

  #sendBatch(peer: Peer, deltas: StreamDelta[]): void {
    const data = encodeTokenBatch({ sequence: ++peer.sequence, deltas });
    // A batch that could not be sent leaves a hole in the sequence, which its frontend sees.
    if (!this.#publish(peer.subject, data)) this.#metrics.lostMessages('tokens');
  }
}

function addTransfer(row: StreamDelta, transfer: TransferParams): void {
  if (isTransferTooLarge(transfer)) {
    row.finish = 'error';
    row.error = TRANSFER_TOO_LARGE;
  } else row.transfer = transfer;
}

function sizeOf(row: StreamDelta): number {
  let bytes = ROW_BYTES + row.tokens.length * 4;
  if (row.error !== undefined) bytes += EXTRA_BYTES + row.error.message.length * CHAR_BYTES;
  if (row.transfer !== undefined) bytes += EXTRA_BYTES + transferParamsBytes(row.transfer);
  return bytes;
}
