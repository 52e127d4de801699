import { messageOf } from '@busbar/base';
import type { BusMessage } from '@busbar/bus';
import type {
  Engine,
  EngineDelta,
  EngineSink,
  EngineStep,
  FetchReport,
  KvChanges,
  StagedEnd,
} from '@busbar/engine';
import {
  decodeCancel,
  decodeKvSyncRequest,
  decodeWork,
  encodeStreamPositions,
  encodeWorkAck,
  ProtocolError,
  type TransferParams,
  type WorkAck,
  type WorkerInfo,
  type WorkHeader,
} from '@busbar/protocol';
import type { ServiceContext } from '@busbar/service';
import { engineRequest } from './engine-request.ts';
import { FetchMeter, type FetchObserver } from './fetch-meter.ts';
import { KvPublisher } from './kv-publisher.ts';
import { KvSnapshots } from './kv-snapshots.ts';
import type { LoadFacts } from './load-reporter.ts';
import type { WorkerMetrics } from './metrics.ts';
import { StagedRequests } from './staged-requests.ts';
import { type Stream, Streams } from './streams.ts';
import { isTransferTooLarge, TokenSender } from './token-sender.ts';
import { badRequest, type Work, WorkIntake } from './work-intake.ts';
import { refuseKind, refuseWork } from './work-rules.ts';

const NOTHING = new Uint8Array(0);
const ACCEPTED: WorkAck = { kind: 'accepted' };

/** What hears of a worker that runs. */
export interface WorkerListener {
  /** The worker takes no more requests. */
  onDrain(): void;
  /** The engine says something new of itself. */
  onInfo(info: WorkerInfo): void;
  /** Absent where the engine exchanges no KV. */
  fetches?: FetchObserver;
}

/** Everything between the bus and the engine of one worker. All of it is synchronous: one message in, effects out. */
export class Worker implements EngineSink {
  readonly intake: WorkIntake;
  readonly #context: ServiceContext;
  readonly #engine: Engine;
  readonly #metrics: WorkerMetrics;
  readonly #streams: Streams;
  readonly #staged = new StagedRequests();
  readonly #fetches: FetchMeter;
  readonly #tokens: TokenSender;
  readonly #kv: KvPublisher;
  readonly #snapshots: KvSnapshots;
  readonly #onFault: (error: Error) => void;
  #listener: WorkerListener | undefined;
  #idle: (() => void)[] = [];
  #info: WorkerInfo | undefined;
  #isDraining = false;
  #isPaused = false;
  #isStopping = false;

  constructor(
    context: ServiceContext,
    engine: Engine,
    metrics: WorkerMetrics,
    onFault: (error: Error) => void,
  ) {
    const { subjects, id, epoch, clock } = context;
    this.#context = context;
    this.#engine = engine;
    this.#metrics = metrics;
    this.#onFault = onFault;
    this.intake = new WorkIntake(clock);
    this.#fetches = new FetchMeter(clock, metrics);
    this.#streams = new Streams((frontendId) => subjects.tokens(frontendId, id));
    const publish = (subject: string, data: Uint8Array): boolean => this.#publish(subject, data);
    this.#tokens = new TokenSender(this.#streams, metrics, publish);
    const kvSubject = subjects.kv(id);
    this.#kv = new KvPublisher(epoch, metrics, (data) => publish(kvSubject, data));
    this.#snapshots = new KvSnapshots({
      epoch,
      clock,
      read: () => {
        this.#kv.flush();
        return { sequence: this.#kv.sequence, sets: engine.blocks() };
      },
    });
  }

  get running(): number {
    return this.#streams.size;
  }

  /** Requests whose KV waits for a decode worker. */
  get staged(): number {
    return this.#staged.size;
  }

  /** From now on the worker takes requests. */
  open(info: WorkerInfo, listener: WorkerListener): void {
    this.#info = info;
    this.#listener = listener;
    this.#fetches.observer = listener.fetches;
  }

  /** For a heartbeat. What waits of the cache's changes leaves in the same write, so that routers wake once for both. */
  facts(): LoadFacts {
    this.#kv.flush();
    return {
      epoch: this.#context.epoch,
      kvBlocks: this.#info?.kvBlocks ?? 1,
      isDraining: this.#isDraining || this.#isPaused,
      kvSequence: this.#kv.sequence,
      load: this.#engine.load(),
    };
  }

  /** Takes nothing new from now on; resolves as `idle` does. */
  drain(signal: AbortSignal): Promise<void> {
    this.#isDraining = true;
    this.#listener?.onDrain();
    return this.idle(signal);
  }

  /** Takes nothing new until `resume`. */
  pause(): void {
    this.#isPaused = true;
    this.#listener?.onDrain();
  }

  resume(): void {
    this.#isPaused = false;
  }

  /** Resolves when nothing runs and no KV waits here, or when `signal` fires. */
  idle(signal: AbortSignal): Promise<void> {
    if (this.#isIdle() || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  /** Ends what still runs with an error that another worker may make good. */
  async stop(): Promise<void> {
    this.#isDraining = true;
    this.#isStopping = true;
    await this.#engine.stop();
    this.#kv.flush();
  }

  onWork(message: BusMessage): void {
    const ack = this.#receive(message.data);
    if (ack.kind === 'refused') this.#metrics.refused(ack.code);
    message.respond(encodeWorkAck(ack));
  }

  onCancel(message: BusMessage): void {
    const cancel = this.#read('cancel', () => decodeCancel(message.data));
    if (cancel === undefined) return;
    const { frontendId, streamIds, isFetched, asksStreams } = cancel;
    for (const streamId of streamIds) {
      if (isFetched) {
        this.#onFetched(frontendId, streamId);
        continue;
      }
      this.intake.drop(frontendId, streamId);
      const stream = this.#streams.find(frontendId, streamId);
      if (stream !== undefined) this.#giveUp(stream);
      const key = this.#staged.keyOf(frontendId, streamId);
      if (key !== undefined) this.#engine.abort(key);
    }
    // A frontend that has heard nothing for a while asks so whether this process still runs.
    message.respond(
      asksStreams ? encodeStreamPositions(this.#streams.positionsOf(frontendId)) : NOTHING,
    );
  }

  onKvSync(message: BusMessage): void {
    const request = this.#read('kvsync', () => decodeKvSyncRequest(message.data));
    if (request !== undefined) message.respond(this.#snapshots.answer(request));
  }

  onFrontendGone(frontendId: string): void {
    const streams = this.#streams.ofFrontend(frontendId);
    const staged = this.#staged.keysOf(frontendId);
    this.#streams.forget(frontendId);
    for (const stream of streams) this.#giveUp(stream);
    for (const key of staged) this.#engine.abort(key);
    if (streams.length + staged.length > 0) {
      this.#context.log.info(
        { frontendId, streams: streams.length, staged: staged.length },
        'a frontend left; its requests end',
      );
    }
  }

  onStep({ deltas }: EngineStep): void {
    const all = this.#isStopping ? deltas.map(blameStop) : deltas;
    this.#tokens.send(all, (stream, delta) => this.#end(stream, delta));
  }

  onKv(changes: KvChanges): void {
    this.#kv.send(changes);
  }

  onCacheReset(): void {
    this.#kv.clear();
  }

  onStagedEnd(key: number, how: StagedEnd): void {
    this.#metrics.stagedEnded(how);
    if (!this.#staged.remove(key)) return;
    this.#metrics.stagedRequests.set(this.#staged.size);
    this.#tellIdle();
  }

  onFetchBegin(key: number): void {
    const stream = this.#streams.get(key);
    if (stream?.isWarmUp !== true) this.#fetches.began(key, stream?.kvFrom);
  }

  onFetchEnd(key: number, report: FetchReport): void {
    this.#fetches.ended(key, report);
  }

  onInfo(info: WorkerInfo): void {
    this.#info = info;
    this.#listener?.onInfo(info);
  }

  onFault(error: Error): void {
    this.#onFault(error);
  }

  #receive(data: Uint8Array): WorkAck {
    try {
      const decoded = this.#read('work', () => decodeWork(data));
      if (decoded === undefined) return badRequest('the request does not follow the protocol');
      const { header, tokens } = decoded;
      const refusal = this.#refuse(header);
      if (refusal !== undefined) return refusal;
      const result = this.intake.take(header, tokens);
      if (result.kind === 'partial') return ACCEPTED;
      return result.kind === 'refused' ? result.ack : this.#submit(result.work);
    } catch (error) {
      this.#context.log.error({ err: error }, 'a request could not be taken');
      return { kind: 'refused', code: 'WORKER_FAULT', message: messageOf(error), retryable: true };
    }
  }

  /** Undefined for a message that does not follow the protocol: it is counted and dropped. */
  #read<T>(subject: string, decode: () => T): T | undefined {
    try {
      return decode();
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#metrics.badFrames(subject);
      this.#context.log.debug({ subject, reason: error.message.slice(0, 500) }, 'bad frame');
      return undefined;
    }
  }

  #refuse(header: WorkHeader): WorkAck | undefined {
    const { frontendId, streamId } = header;
    const isKnown =
      this.#streams.has(frontendId, streamId) ||
      this.#staged.keyOf(frontendId, streamId) !== undefined;
    if (isKnown) return badRequest(`stream ${streamId} runs already`);
    return refuseWork(header, {
      info: this.#info,
      isDraining: this.#isDraining || this.#isPaused,
      inFlight: this.#streams.size + this.#staged.size,
    });
  }

  #submit({ header, tokens }: Work): WorkAck {
    const info = this.#info;
    const refusal = info === undefined ? undefined : refuseKind(header, info);
    if (refusal !== undefined) return refusal;
    const span = this.#context.tracer.start(this.#context.role, header.traceparent, {
      model: header.model,
      promptTokens: header.promptTokens,
    });
    const stream = this.#streams.open(header.frontendId, header.streamId, span);
    stream.kvFrom = header.kvSource?.prefillWorkerId;
    stream.isWarmUp = header.isWarmUp ?? false;
    try {
      const result = this.#engine.submit(engineRequest(stream.key, header, tokens));
      if (result.kind === 'refused') {
        this.#streams.close(stream);
        span.end(result.code);
        return result;
      }
    } catch (error) {
      // Else it would run for ever in the eyes of a drain.
      this.#streams.close(stream);
      span.end(error);
      throw error;
    }
    if (!stream.isWarmUp) this.#metrics.promptTokens.inc(tokens.length);
    return ACCEPTED;
  }

  #end(stream: Stream, delta: EngineDelta): void {
    this.#streams.close(stream);
    const isFailed = delta.finish === 'error';
    if (!stream.isWarmUp) this.#metrics.ended(delta.finish);
    stream.span.set({ outputTokens: stream.position, finish: delta.finish });
    stream.span.end(isFailed ? delta.error?.code : undefined);
    if (delta.transfer !== undefined) this.#keepStaged(stream, delta.transfer);
    this.#tellIdle();
  }

  /** The KV stays until a decode worker has it, or until nobody can ask for it. */
  #keepStaged(stream: Stream, transfer: TransferParams): void {
    this.#staged.add(stream.peer.frontendId, stream.streamId, stream.key);
    this.#metrics.stagedRequests.set(this.#staged.size);
    if (stream.isGivenUp || isTransferTooLarge(transfer)) this.#engine.abort(stream.key);
  }

  #giveUp(stream: Stream): void {
    stream.isGivenUp = true;
    this.#engine.abort(stream.key);
  }

  #onFetched(frontendId: string, streamId: number): void {
    const key = this.#staged.keyOf(frontendId, streamId);
    if (key !== undefined) this.#engine.stagedFetched?.(key);
  }

  #isIdle(): boolean {
    return this.#streams.size === 0 && this.#staged.size === 0;
  }

  #tellIdle(): void {
    if (!this.#isIdle()) return;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #publish(subject: string, data: Uint8Array): boolean {
    try {
      this.#context.bus.publish(subject, data);
      return true;
    } catch (error) {
      this.#context.log.debug(
        { subject, reason: messageOf(error) },
        'the bus did not take a message',
      );
      return false;
    }
  }
}

/** Nobody asked for this end: the frontend may try elsewhere. */
function blameStop(delta: EngineDelta): EngineDelta {
  if (delta.finish !== 'cancelled') return delta;
  const message = 'the worker stopped before the answer was complete';
  return {
    ...delta,
    finish: 'error',
    error: { code: 'WORKER_DRAINING', message, retryable: true },
  };
}
