import type { Span } from '@busbar/telemetry';

/** One running request of a frontend. */
export interface Stream {
  readonly key: number;
  readonly streamId: number;
  readonly peer: Peer;
  /** Output tokens sent so far. */
  position: number;
  readonly span: Span;
  /** Whose KV the request fetches. */
  kvFrom: string | undefined;
  /** Nobody wants the answer any more, nor the KV that a prefill leg would leave. */
  isGivenUp: boolean;
  /** It proves a link, for no client. */
  isWarmUp: boolean;
}

/** A frontend that has, or had, requests here. */
export interface Peer {
  readonly frontendId: string;
  readonly subject: string;
  /** Token batches sent to it so far. */
  sequence: number;
  readonly keys: Map<number, number>;
}

/** Beyond it those with no stream here are forgotten: their next batch is number 1 again, which a frontend takes as no loss. */
const MAX_IDLE_PEERS = 256;

/** Who asked for what: engine keys by frontend and stream id, and back. */
export class Streams {
  readonly #peers = new Map<string, Peer>();
  readonly #byKey = new Map<number, Stream>();
  readonly #subjectOf: (frontendId: string) => string;
  #nextKey = 1;

  constructor(subjectOf: (frontendId: string) => string) {
    this.#subjectOf = subjectOf;
  }

  get size(): number {
    return this.#byKey.size;
  }

  has(frontendId: string, streamId: number): boolean {
    return this.#peers.get(frontendId)?.keys.has(streamId) ?? false;
  }

  get(key: number): Stream | undefined {
    return this.#byKey.get(key);
  }

  find(frontendId: string, streamId: number): Stream | undefined {
    const key = this.#peers.get(frontendId)?.keys.get(streamId);
    return key === undefined ? undefined : this.#byKey.get(key);
  }

  ofFrontend(frontendId: string): Stream[] {
    const keys = this.#peers.get(frontendId)?.keys.values() ?? [];
    return [...keys].flatMap((key) => this.#byKey.get(key) ?? []);
  }

  /** Output tokens sent so far, by stream id. */
  positionsOf(frontendId: string): Map<number, number> {
    return new Map(
      this.ofFrontend(frontendId).map(({ streamId, position }) => [streamId, position]),
    );
  }

  open(frontendId: string, streamId: number, span: Span): Stream {
    const peer = this.#peer(frontendId);
    const stream: Stream = {
      key: this.#nextKey++,
      streamId,
      peer,
      position: 0,
      span,
      kvFrom: undefined,
      isGivenUp: false,
      isWarmUp: false,
    };
    peer.keys.set(streamId, stream.key);
    this.#byKey.set(stream.key, stream);
    return stream;
  }

  close(stream: Stream): void {
    this.#byKey.delete(stream.key);
    stream.peer.keys.delete(stream.streamId);
  }

  /** The frontend is gone or began anew: the next batch to this name is number 1 again. Its streams stay until they are aborted. */
  forget(frontendId: string): void {
    this.#peers.delete(frontendId);
  }

  #peer(frontendId: string): Peer {
    let peer = this.#peers.get(frontendId);
    if (peer !== undefined) return peer;
    if (this.#peers.size >= MAX_IDLE_PEERS) this.#dropIdle();
    const subject = this.#subjectOf(frontendId);
    peer = { frontendId, subject, sequence: 0, keys: new Map() };
    this.#peers.set(frontendId, peer);
    return peer;
  }

  #dropIdle(): void {
    for (const [id, peer] of this.#peers) if (peer.keys.size === 0) this.#peers.delete(id);
  }
}
