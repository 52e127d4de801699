import type { ServerResponse } from 'node:http';
import {
  type AnswerHead,
  type ApiFinishReason,
  ChunkWriter,
  errorEvent,
  type Problem,
  SSE_DONE,
  SSE_KEEP_ALIVE,
  type UsageTokens,
} from '@busbar/openai';
import { limit } from '@busbar/protocol';
import { sendProblem } from './error-response.ts';
import type { AnswerSink } from './sink.ts';
import type { SinkFlusher } from './sink-flusher.ts';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
};
/** Ends a body in chunked framing. */
const LAST_CHUNK = '0\r\n\r\n';

/**
 * One streamed answer. Events gather in `#pending` and leave in one write when the piece of the bus connection in which they
 * came is read, so that a loop that lags, or a socket that is full, merges them by itself: the cost of a stream is its
 * system calls. The status is sent with the first event; until then a failure is an ordinary error answer.
 */
export class SseSink implements AnswerSink {
  readonly #response: ServerResponse;
  readonly #writer: ChunkWriter;
  readonly #flusher: SinkFlusher;
  readonly #includeUsage: boolean;
  #pending = '';
  /** Whether what waits is known to be ASCII: then its length is its size, and nobody has to measure it. */
  #isAscii = true;
  readonly #isAsciiHead: boolean;
  #isDirty = false;
  #isComplete = false;
  #isWaitingForDrain = false;
  #isFramed = false;
  #lastWriteMs: number;

  constructor(
    response: ServerResponse,
    head: AnswerHead,
    options: { flusher: SinkFlusher; includeUsage: boolean; nowMs: number },
  ) {
    this.#response = response;
    this.#writer = new ChunkWriter(head);
    this.#isAsciiHead = isAscii(head.model) && isAscii(head.id);
    this.#isAscii = this.#isAsciiHead;
    this.#flusher = options.flusher;
    this.#includeUsage = options.includeUsage;
    this.#lastWriteMs = options.nowMs;
    options.flusher.add(this);
  }

  text(index: number, text: string, usage?: UsageTokens): void {
    if (this.#isAscii) this.#isAscii = isAscii(text);
    this.#append(this.#writer.text(index, text, usage));
  }

  finish(index: number, reason: ApiFinishReason, usage?: UsageTokens): void {
    this.#append(this.#writer.finish(index, reason, usage));
  }

  complete(usage: UsageTokens): void {
    this.#end(this.#includeUsage ? this.#writer.usage(usage) + SSE_DONE : SSE_DONE);
  }

  fail(problem: Problem): void {
    if (this.#isComplete) return;
    if (this.#response.headersSent || this.#pending !== '') {
      this.#isAscii = false;
      this.#end(errorEvent(problem) + SSE_DONE);
      return;
    }
    this.#isComplete = true;
    this.close();
    sendProblem(this.#response, problem);
  }

  /** The client is gone or everything was handed to the socket. */
  close(): void {
    this.#isComplete = true;
    this.#pending = '';
    this.#flusher.remove(this);
  }

  /** Writes what has gathered. While the socket is full it goes on gathering, up to a limit. */
  flush(nowMs: number): void {
    this.#isDirty = false;
    if (this.#pending === '') return;
    const response = this.#response;
    if (response.writableNeedDrain || response.socket?.writableNeedDrain === true) {
      this.#waitForDrain();
      return;
    }
    const isFirst = !response.headersSent;
    if (isFirst) this.#writeHead();
    const events = this.#pending;
    this.#pending = '';
    this.#lastWriteMs = nowMs;
    const bytes = this.#isAscii ? events.length : Buffer.byteLength(events);
    this.#isAscii = this.#isAsciiHead;
    const encoding = bytes === events.length ? 'latin1' : 'utf8';
    const body = this.#isFramed ? `${bytes.toString(16)}\r\n${events}\r\n` : events;
    if (this.#isComplete) {
      response.end(this.#isFramed ? body + LAST_CHUNK : body, encoding);
      this.#flusher.remove(this);
    } else if (isFirst || response.socket === null) response.write(body, encoding);
    // The head is out and nothing waits in the response: its own write would cork, queue and uncork the same socket.
    else response.socket.write(body, encoding);
  }

  /**
   * Takes over the chunked framing that the head has promised (HTTP/1.1 clients only): Node would write each chunk in four
   * pieces, which costs a third more than one text.
   */
  #writeHead(): void {
    const response = this.#response;
    response.writeHead(200, HEADERS);
    this.#isFramed = response.chunkedEncoding;
    response.chunkedEncoding = false;
  }

  /** A comment, when nothing was written for `silenceMs`. */
  keepAlive(nowMs: number, silenceMs: number): void {
    if (this.#isComplete || nowMs - this.#lastWriteMs < silenceMs) return;
    if (this.#pending === '' && !this.#response.writableNeedDrain) this.#append(SSE_KEEP_ALIVE);
  }

  #append(event: string): void {
    if (this.#isComplete) return;
    this.#pending = this.#pending === '' ? event : this.#pending + event;
    if (this.#isDirty) return;
    if (this.#isWaitingForDrain) {
      // A client that does not read: closing the response is what cancels its streams.
      if (this.#pending.length > limit('clientBufferBytes')) this.#response.destroy();
      return;
    }
    this.#isDirty = true;
    this.#flusher.mark(this);
  }

  #end(events: string): void {
    if (this.#isComplete) return;
    this.#append(events);
    this.#isComplete = true;
  }

  #waitForDrain(): void {
    if (this.#isWaitingForDrain) return;
    this.#isWaitingForDrain = true;
    const { socket } = this.#response;
    (socket?.writableNeedDrain === true ? socket : this.#response).once('drain', () => {
      this.#isWaitingForDrain = false;
      this.flush(this.#lastWriteMs);
    });
  }
}

/** Texts of one step are a few characters: looking at each is cheaper than a call out of JavaScript. */
function isAscii(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 127) return false;
  return true;
}
