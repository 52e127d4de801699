import { FrontendError } from '../errors.ts';
import type { StreamOwner } from './stream-owner.ts';

const ASK_TIMEOUT_MS = 500;
/** A worker may come back to the bus a little later than this frontend. */
const TRIES = 6;
const RETRY_MS = 250;

export interface DoubtsHost {
  /** Tokens that a worker has sent of each stream that it runs for us; undefined when it does not say, `silent` without an answer. */
  positions(
    workerId: string,
    timeoutMs: number,
  ): Promise<ReadonlyMap<number, number> | 'silent' | undefined>;
}

/**
 * After an outage of the bus each worker is asked how far our streams there have come. Its tokens come before its answer, on one
 * connection: a stream that it does not run any more, or of which it has sent more than came, has lost its end or some tokens, and any
 * other has lost nothing. Work that was on its way when the outage began has failed by then, so that every stream asked for is
 * known to the worker or over. Who does not answer so is left to the limits of suspicion.
 */
export class OutageDoubts {
  readonly #host: DoubtsHost;
  #outages = 0;

  constructor(host: DoubtsHost) {
    this.#host = host;
  }

  /** What was asked before is void: the bus is away again, or the frontend stops. */
  cancel(): void {
    this.#outages++;
  }

  /** The bus is back, and these are the streams of a worker that were opened before. Never rejects. */
  async ask(workerId: string, owners: Iterable<StreamOwner>): Promise<void> {
    const outages = this.#outages;
    const doubted = [...owners].map((owner) => ({ owner, streamId: owner.streamId }));
    for (let at = 0; at < TRIES; at++) {
      const positions = await this.#host.positions(workerId, ASK_TIMEOUT_MS);
      if (outages !== this.#outages || positions === undefined) return;
      if (positions !== 'silent') {
        for (const { owner, streamId } of doubted) {
          if (owner.streamId === streamId) judge(workerId, owner, positions);
        }
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
      if (outages !== this.#outages) return;
    }
  }
}

function judge(workerId: string, owner: StreamOwner, positions: ReadonlyMap<number, number>): void {
  const { streamId } = owner;
  if (streamId === undefined || owner.workerId !== workerId) return;
  const sent = positions.get(streamId);
  // What came behind the answer may have been read with it.
  if (sent !== undefined && sent <= owner.position) {
    owner.suspectSinceMs = 0;
    return;
  }
  const message = `worker ${workerId}: messages were lost with the bus`;
  owner.lose(new FrontendError('FRONTEND_TOKENS_LOST', message, { retryable: true }));
}
