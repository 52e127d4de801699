import { AppError } from '@busbar/base';
import { type Bus, BusError } from '@busbar/bus';
import {
  decodeStreamPositions,
  decodeWorkAck,
  encodeCancel,
  encodeStreamsQuestion,
  encodeWork,
  limit,
  ProtocolError,
  type Subjects,
  type WorkHeader,
} from '@busbar/protocol';
import { FrontendError } from '../errors.ts';
import type { FrontendMetrics } from '../metrics.ts';
import { Recent } from './recent.ts';
import type { Returns } from './returns.ts';

/** Room for the header of a message: `logit_bias` at its limit is about 30 kB. */
const HEADER_BYTES = 65_536;

/** One request on its way to one worker. */
export interface OutgoingWork {
  workerId: string;
  header: WorkHeader;
  tokens: Uint32Array;
  /** What the last message carries beside its tokens, asked for when it is made, and the room that is kept for it. */
  last?: { bytes: number; fields: () => Pick<WorkHeader, 'kvSource'> | undefined };
}

/** A stream that a worker was asked to stop, or whose staged KV it was told to count off. */
interface Cancel {
  workerId: string;
  streamId: number;
  isFetched: boolean;
}

/** Gives placed candidates to their workers and takes them back. */
export class WorkSender {
  readonly #bus: Bus;
  readonly #returns: Returns;
  readonly #subjects: Subjects;
  readonly #frontendId: string;
  readonly #cancels: Recent<Cancel>;

  constructor(
    bus: Bus,
    returns: Returns,
    subjects: Subjects,
    frontendId: string,
    metrics: Pick<FrontendMetrics, 'cancelsForgotten'>,
  ) {
    this.#bus = bus;
    this.#returns = returns;
    this.#subjects = subjects;
    this.#frontendId = frontendId;
    this.#cancels = new Recent(limit('repeatedCancels'), metrics.cancelsForgotten);
  }

  /**
   * Resolves when the worker has accepted the whole request. Throws a retryable error when another worker may take it:
   * nobody listens, no acknowledgement in time, or a refusal that says so. `isWanted` is asked between parts and
   * between tries.
   */
  async send(work: OutgoingWork, isWanted: () => boolean): Promise<void> {
    const { workerId, header, tokens, last } = work;
    const ends = partEnds(tokens.length, last?.bytes ?? 0);
    let from = 0;
    for (const [part, end] of ends.entries()) {
      const parts = ends.length;
      const fields = part === parts - 1 ? last?.fields() : undefined;
      const own = parts === 1 ? header : { ...header, part, parts };
      const bytes = encodeWork(
        fields === undefined ? own : { ...own, ...fields },
        tokens.subarray(from, end),
      );
      await this.#sendPart(workerId, bytes, isWanted);
      if (!isWanted()) return;
      from = end;
    }
  }

  /** Asks the worker to stop these streams. Best effort; what was said around an outage of the bus is said again after it. */
  cancel(workerId: string, streamIds: number[]): void {
    this.#tell(workerId, streamIds, false);
  }

  /** Tells a prefill worker that the KV of this stream was fetched. Best effort: its time runs out by itself. */
  fetched(workerId: string, streamId: number): void {
    this.#tell(workerId, [streamId], true);
  }

  /** From now on no cancel is forgotten but for their number. */
  hold(): void {
    this.#cancels.hold();
  }

  /** Says all recent cancels again, in one message for each worker and kind. Workers ignore streams that they do not know. */
  repeat(): void {
    const groups = new Map<string, Cancel[]>();
    for (const cancel of this.#cancels.all()) {
      const key = `${cancel.workerId} ${cancel.isFetched}`;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [cancel]);
      else group.push(cancel);
    }
    for (const group of groups.values()) {
      const { workerId, isFetched } = group[0]!;
      this.#publish(
        workerId,
        group.map(({ streamId }) => streamId),
        isFetched,
      );
    }
  }

  release(): void {
    this.#cancels.release();
  }

  /** Asks for a sign of life; `gone` when nobody listens under the name of this worker any more. */
  async signOfLife(workerId: string, timeoutMs: number): Promise<'alive' | 'silent' | 'gone'> {
    try {
      const nothing = encodeCancel(this.#frontendId, []);
      await this.#bus.request(this.#subjects.cancel(workerId), nothing, { timeoutMs });
      return 'alive';
    } catch (error) {
      const isNobody = error instanceof BusError && error.code === 'BUS_NO_RESPONDERS';
      return isNobody && !this.#returns.isOpen ? 'gone' : 'silent';
    }
  }

  /** See `DoubtsHost`; a worker of an earlier version does not say. */
  async positions(
    workerId: string,
    timeoutMs: number,
  ): Promise<ReadonlyMap<number, number> | 'silent' | undefined> {
    const subject = this.#subjects.cancel(workerId);
    const question = encodeStreamsQuestion(this.#frontendId);
    try {
      const { data } = await this.#bus.request(subject, question, { timeoutMs });
      return data.length === 0 ? undefined : decodeStreamPositions(data);
    } catch (error) {
      if (error instanceof BusError) return 'silent';
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  }

  #tell(workerId: string, streamIds: number[], isFetched: boolean): void {
    for (const streamId of streamIds) this.#cancels.add({ workerId, streamId, isFetched });
    this.#publish(workerId, streamIds, isFetched);
  }

  #publish(workerId: string, streamIds: number[], isFetched: boolean): void {
    const bytes = encodeCancel(this.#frontendId, streamIds, isFetched);
    try {
      this.#bus.publish(this.#subjects.cancel(workerId), bytes);
    } catch (error) {
      if (!(error instanceof BusError)) throw error;
    }
  }

  async #sendPart(workerId: string, bytes: Uint8Array, isWanted: () => boolean): Promise<void> {
    const timeoutMs = limit('workAckTimeoutMs');
    try {
      const subject = this.#subjects.work(workerId);
      const answer = await this.#returns.request(subject, bytes, { timeoutMs }, isWanted);
      const ack = decodeWorkAck(answer.data);
      if (ack.kind === 'refused') {
        throw new AppError(ack.code, ack.message, { retryable: ack.retryable });
      }
    } catch (error) {
      if (
        error instanceof BusError &&
        (error.code === 'BUS_NO_RESPONDERS' || error.code === 'BUS_TIMEOUT')
      ) {
        const message = `worker ${workerId}: ${error.message}`;
        throw new FrontendError('FRONTEND_WORKER_LOST', message, { cause: error, retryable: true });
      }
      throw error;
    }
  }
}

/**
 * Where each part of a prompt ends, so that no message is above the limit when the last one carries `lastBytes` more than its
 * tokens and a usual header. No part is empty.
 */
export function partEnds(tokens: number, lastBytes: number): number[] {
  const most = Math.floor((limit('messageBytes') - HEADER_BYTES) / 4);
  const mostInLast = Math.floor((limit('messageBytes') - HEADER_BYTES - lastBytes) / 4);
  const before = Math.max(0, Math.ceil((tokens - mostInLast) / most));
  const each = before === 0 ? 0 : Math.ceil((tokens - mostInLast) / before);
  return [...Array.from({ length: before }, (_, part) => (part + 1) * each), tokens];
}
