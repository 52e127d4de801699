import { AppError } from '@busbar/base';
import { type Bus, BusError } from '@busbar/bus';
import {
  decodeWorkAck,
  encodeCancel,
  encodeWork,
  limit,
  type Subjects,
  type WorkHeader,
} from '@busbar/protocol';
import type { Candidate, Placement } from './candidate.ts';
import { FrontendError } from './errors.ts';

/** Room for the header of a message: `logit_bias` at its limit is about 30 kB. */
const HEADER_BYTES = 65_536;

/** Gives placed candidates to their workers and takes them back. */
export class WorkSender {
  readonly #bus: Bus;
  readonly #subjects: Subjects;
  readonly #frontendId: string;

  constructor(bus: Bus, subjects: Subjects, frontendId: string) {
    this.#bus = bus;
    this.#subjects = subjects;
    this.#frontendId = frontendId;
  }

  /**
   * Resolves when the worker has accepted the whole request. Throws a retryable error when another worker may take it:
   * nobody listens, no acknowledgement in time, or a refusal that says so. `isWanted` is asked between parts.
   */
  async send(
    candidate: Candidate,
    placement: Placement,
    traceparent: string | undefined,
    isWanted: () => boolean,
  ): Promise<void> {
    const { tokens } = candidate.prompt;
    const header = this.#header(candidate, placement, traceparent);
    const partTokens = Math.floor((limit('messageBytes') - HEADER_BYTES) / 4);
    const parts = Math.ceil(tokens.length / partTokens);
    for (let part = 0; part < parts; part++) {
      const piece = tokens.subarray(part * partTokens, (part + 1) * partTokens);
      await this.#sendPart(
        placement.workerId,
        encodeWork(parts === 1 ? header : { ...header, part, parts }, piece),
      );
      if (!isWanted()) return;
    }
  }

  /** Asks the worker to stop these streams. Best effort: in an outage the worker stops them by its own rules. */
  cancel(workerId: string, streamIds: number[]): void {
    try {
      this.#bus.publish(this.#subjects.cancel(workerId), encodeCancel(this.#frontendId, streamIds));
    } catch (error) {
      if (!(error instanceof BusError)) throw error;
    }
  }

  /** Asks for a sign of life; `gone` when nobody listens under the name of this worker any more. */
  async probe(workerId: string, timeoutMs: number): Promise<'alive' | 'silent' | 'gone'> {
    try {
      const nothing = encodeCancel(this.#frontendId, []);
      await this.#bus.request(this.#subjects.cancel(workerId), nothing, { timeoutMs });
      return 'alive';
    } catch (error) {
      return error instanceof BusError && error.code === 'BUS_NO_RESPONDERS' ? 'gone' : 'silent';
    }
  }

  async #sendPart(workerId: string, bytes: Uint8Array): Promise<void> {
    const timeoutMs = limit('workAckTimeoutMs');
    try {
      const subject = this.#subjects.work(workerId);
      const ack = decodeWorkAck((await this.#bus.request(subject, bytes, { timeoutMs })).data);
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

  #header(candidate: Candidate, placement: Placement, traceparent: string | undefined): WorkHeader {
    const { generation, prompt } = candidate;
    const { params } = generation;
    const header: WorkHeader = {
      streamId: placement.streamId,
      frontendId: this.#frontendId,
      decisionId: placement.decisionId,
      model: generation.model,
      promptTokens: prompt.tokens.length,
      maxTokens: prompt.maxTokens,
      sampling: candidate.sampling,
    };
    if (params.minTokens > 0) header.minTokens = params.minTokens;
    if (params.ignoreEos) header.ignoreEos = true;
    if (params.stopTokenIds.length > 0) header.stopTokenIds = params.stopTokenIds;
    if (params.cacheSalt !== undefined) header.cacheSalt = params.cacheSalt;
    if (traceparent !== undefined) header.traceparent = traceparent;
    return header;
  }
}
