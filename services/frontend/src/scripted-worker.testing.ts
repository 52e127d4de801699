import type { Bus } from '@busbar/bus';
import {
  createSubjects,
  decodeCancel,
  decodeWork,
  encodeStreamPositions,
  encodeTokenBatch,
  encodeWorkAck,
  type FinishReason,
  type StreamDelta,
  type TransferParams,
  type WorkAck,
  type WorkHeader,
} from '@busbar/protocol';
import type { Tokenizer } from '@busbar/tokenizer';

const SUBJECTS = createSubjects('test');
export const EOS = 256;

/** Every UTF-8 byte is a token. */
export const byteTokenizer: Tokenizer = {
  vocabularySize: 257,
  eosTokenIds: [EOS],
  encoderKind: 'fast',
  notes: [],
  encode: (text) => Uint32Array.from(new TextEncoder().encode(text)),
  renderChat: (messages, options) =>
    messages
      .map(
        (message) =>
          `<${message.role}>${typeof message.content === 'string' ? message.content : ''}`,
      )
      .join('') +
    (options?.tools === undefined ? '' : JSON.stringify(options.tools)) +
    (options?.addGenerationPrompt === false ? '' : '<assistant>'),
  createDetokenizer() {
    const decoder = new TextDecoder();
    return {
      push: (tokens) =>
        decoder.decode(Uint8Array.from(tokens.filter((t) => t < EOS)), { stream: true }),
      flush: () => decoder.decode(),
    };
  },
  decode: (tokens) => new TextDecoder().decode(Uint8Array.from(tokens)),
  close: () => Promise.resolve(),
};

/** What a scripted worker does with a request; the default says "ok". */
export type Script = (worker: ScriptedWorker, header: WorkHeader) => void | Promise<void>;

/** A worker made of bus handlers. Tokens go out when the script says so. */
export class ScriptedWorker {
  readonly id: string;
  readonly bus: Bus;
  readonly works: { header: WorkHeader; tokens: Uint32Array }[] = [];
  readonly cancelled: number[] = [];
  /** Messages with work that came, and the size of the largest. */
  asked = 0;
  largestBytes = 0;
  /** Streams whose KV waits here to be fetched. */
  readonly staged = new Set<number>();
  /** Whether every stream that was begun has ended or was cancelled, or the worker is no more. */
  get isIdle(): boolean {
    return [...this.#open].every((streamId) => this.cancelled.includes(streamId));
  }

  /** Says what it found in its cache only where the script does. */
  isLateWithCached = false;
  ack: (header: WorkHeader) => WorkAck | undefined = () => ({ kind: 'accepted' });
  script: Script;
  #sequence = 0;
  readonly #positions = new Map<number, number>();
  readonly #frontends = new Map<number, string>();
  readonly #open = new Set<number>();
  readonly #parts: Uint32Array[] = [];
  #isHung = false;
  /** Cancels do not reach it. */
  isDeaf = false;
  /** Says how far its streams are when it is asked. */
  tellsStreams = false;

  constructor(id: string, bus: Bus, script: Script) {
    this.id = id;
    this.bus = bus;
    this.script = script;
    bus.subscribe(SUBJECTS.cancel(id), (message) => {
      if (this.#isHung || this.isDeaf) return;
      const { streamIds, asksStreams } = decodeCancel(message.data);
      for (const streamId of streamIds) {
        this.cancelled.push(streamId);
        this.staged.delete(streamId);
      }
      const tells = asksStreams && this.tellsStreams;
      message.respond(tells ? encodeStreamPositions(this.#running()) : new Uint8Array(0));
    });
    bus.subscribe(SUBJECTS.work(id), (message) => {
      const { header, tokens } = decodeWork(message.data);
      this.asked++;
      this.largestBytes = Math.max(this.largestBytes, message.data.length);
      const ack = this.ack(header);
      if (ack !== undefined) message.respond(encodeWorkAck(ack));
      if (ack?.kind !== 'accepted') return;
      this.#parts.push(tokens);
      if ((header.part ?? 0) < (header.parts ?? 1) - 1) return;
      const whole = Uint32Array.from(this.#parts.splice(0).flatMap((part) => [...part]));
      this.works.push({ header, tokens: whole });
      this.#frontends.set(header.streamId, header.frontendId);
      this.#open.add(header.streamId);
      void this.script(this, header);
    });
  }

  #running(): Map<number, number> {
    return new Map([...this.#open].map((id) => [id, this.#positions.get(id) ?? 0]));
  }

  /** One engine step for one stream. */
  emit(
    streamId: number,
    text: string | number[],
    finish: FinishReason = 'none',
    more: Partial<StreamDelta> = {},
  ): void {
    const tokens = typeof text === 'string' ? byteTokenizer.encode(text) : Uint32Array.from(text);
    if (tokens instanceof Promise) throw new Error('the byte tokenizer is synchronous');
    const position = this.#positions.get(streamId) ?? 0;
    this.#positions.set(streamId, position + tokens.length);
    const delta: StreamDelta = { streamId, position, tokens, finish, ...more };
    if (position === 0 && !this.isLateWithCached) delta.cachedTokens ??= 3;
    if (finish !== 'none') this.#open.delete(streamId);
    this.send(this.#frontends.get(streamId) ?? 'frontend-test', [delta]);
  }

  /** The end of a prefill leg: one token, and KV that waits until it is fetched or given up. */
  stage(streamId: number, more: Partial<StreamDelta> = {}): void {
    if (this.cancelled.includes(streamId)) return;
    this.staged.add(streamId);
    this.emit(streamId, 'p', 'length', { transfer: transferOf(String(streamId)), ...more });
  }

  /** As `emit`, and the message is lost, also to the count of batches. */
  lose(streamId: number, text: string, finish: FinishReason = 'none'): void {
    this.#positions.set(streamId, (this.#positions.get(streamId) ?? 0) + text.length);
    if (finish !== 'none') this.#open.delete(streamId);
  }

  send(frontendId: string, deltas: StreamDelta[]): void {
    const data = encodeTokenBatch({ sequence: ++this.#sequence, deltas });
    this.bus.publish(SUBJECTS.tokens(frontendId, this.id), data);
  }

  /** The next batch is lost on its way. */
  loseBatch(): void {
    this.#sequence++;
  }

  /** As SIGKILL: nothing is said, the connection is gone. */
  async kill(): Promise<void> {
    this.#open.clear();
    this.staged.clear();
    await this.bus.close();
  }

  /** Connected but silent, as after SIGSTOP. */
  hang(): void {
    this.#isHung = true;
  }
}

/** Parameters of a transfer as a mock worker makes them. */
export function transferOf(transferId: string): TransferParams {
  const params = { transferId, endpoint: '127.0.0.1:1', blocks: 1, blockBytes: 64 };
  return { protocol: 'tcp', params };
}

/** The default script. */
export function sayOk(worker: ScriptedWorker, { streamId }: WorkHeader): void {
  worker.emit(streamId, 'o');
  worker.emit(streamId, 'k');
  worker.emit(streamId, [EOS], 'stop');
}
