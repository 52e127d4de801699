import type { Tier } from '@busbar/protocol';
import type { EngineSink } from '../../port.ts';
import { decodeKvEvents } from './decode.ts';
import { readPublished, type SequencedPayload } from './frames.ts';
import type { ProblemTeller } from './problem-teller.ts';
import { type Applied, RankBlocks, type TierChanges } from './rank-blocks.ts';
import { SequenceTracker } from './sequence.ts';

/** An engine that sends much faster than it can be read drops answers in between; what is missing is asked for again. */
const MAX_REPLAY_ROUNDS = 32;
/** A rebuild makes the engine send all that it keeps, so it is not asked for whenever a block's parent is unknown. */
const REBUILD_PAUSE_MS = 30_000;

/**
 * Asks the publisher for its messages from `from` on; `take` gets them one by one and says whether to go on. Resolves when there are no
 * more, with a reason if that is not for certain. Never rejects; every wait has a limit.
 */
export type Replay = (
  from: number,
  take: (answer: SequencedPayload) => boolean,
) => Promise<string | undefined>;

export interface RankSourceOptions {
  dpRank: number;
  sink: Pick<EngineSink, 'onKv' | 'onCacheReset'>;
  /** Other ranks share the sink: a restart of this one must not clear theirs. */
  hasSiblings: boolean;
  /** Absent: messages that were missed cannot be had. */
  replay?: Replay;
  problems: ProblemTeller;
  nowMs: () => number;
}

/** Follows the messages of one rank's publisher and keeps the set of its blocks right, or begins anew where it cannot. */
export class RankSource {
  readonly #options: RankSourceOptions;
  readonly #blocks = new RankBlocks();
  readonly #sequence = new SequenceTracker();
  readonly statistics = {
    batches: 0,
    storedBlocks: 0,
    removedBlocks: 0,
    clears: 0,
    replays: 0,
    replayedBatches: 0,
    orphanBlocks: 0,
    ignoredEvents: 0,
  };
  /** Changes whenever all is forgotten from outside: what was being waited for then is void. */
  #generation = 0;
  #isConnectionNew = false;
  /** The publisher keeps its first message still, as far as is known. */
  #canRebuild = true;
  #rebuiltAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: RankSourceOptions) {
    this.#options = options;
  }

  get dpRank(): number {
    return this.#options.dpRank;
  }

  get size(): number {
    return this.#blocks.size;
  }

  blocks(): { tier: Tier; hashes: Uint32Array }[] {
    return this.#blocks.blocks();
  }

  /** Learns what an engine that runs already has published so far, as far as it keeps it. */
  async begin(): Promise<void> {
    if (this.#options.replay === undefined) return;
    const failure = await this.#catchUp();
    if (failure !== undefined) this.#lose(failure);
  }

  /** One published message. Calls must not overlap. */
  async hear(frames: readonly Uint8Array[]): Promise<void> {
    const message = readPublished(frames);
    if (message === undefined) {
      // Its number is unknown; the next message shows the gap.
      this.#tell('bad-frame', `a message of ${frames.length} frames that is no KV event`);
      return;
    }
    this.#noticeNewPublisher(message.sequence);
    const generation = this.#generation;
    if (this.#sequence.judge(message.sequence) === 'gap') {
      const { next } = this.#sequence;
      this.#tell('gap', `messages ${next} to ${message.sequence - 1} are missing`);
      const failure = await this.#catchUp();
      if (generation !== this.#generation) return;
      if (this.#sequence.judge(message.sequence) === 'gap') {
        this.#lose(failure ?? `messages before ${message.sequence} could not be had`);
        this.#sequence.accept(message.sequence - 1);
      }
    }
    if (this.#sequence.judge(message.sequence) === 'repeat') return;
    const applied = await this.#takeOrAskAgain(message);
    if (generation === this.#generation && applied !== undefined && applied.orphanBlocks > 0) {
      await this.#onOrphans(applied.orphanBlocks);
    }
  }

  /** The connection was cut: what comes next may be from another process, whatever its numbers say. */
  onConnectionLost(): void {
    this.#isConnectionNew = true;
  }

  /** The engine's process is gone. */
  forget(): void {
    this.#generation++;
    this.#sequence.reset();
    this.#canRebuild = true;
    this.#isConnectionNew = false;
    const changes = this.#blocks.clear();
    if (this.#options.hasSiblings) this.#emit(changes);
    else this.#options.sink.onCacheReset();
  }

  expectBlocks(blockSize: number, kvBlocks?: number): void {
    const known = this.#blocks.blockSize;
    if (known !== undefined && known !== blockSize) {
      this.#tell('block-size', sizeMessage(known, blockSize));
      this.#emit(this.#blocks.clear());
    }
    this.#blocks.expectBlocks(blockSize, kvBlocks);
  }

  #noticeNewPublisher(sequence: number): void {
    const verdict = this.#sequence.hear(sequence);
    if (verdict === 'restart') {
      this.#tell('restart', `messages count from ${sequence} again: the engine began anew`);
      this.forget();
      this.#sequence.hear(sequence);
    } else if (this.#isConnectionNew) {
      this.#tell('restart', 'the connection was cut: the engine may have begun anew');
      this.forget();
      this.#sequence.hear(sequence);
    }
  }

  /** Asks for everything from the next number on, until the publisher has no more; or says why that failed. */
  async #catchUp(): Promise<string | undefined> {
    const { replay } = this.#options;
    if (replay === undefined) return 'the engine has no replay endpoint';
    const generation = this.#generation;
    for (let round = 0; round < MAX_REPLAY_ROUNDS; round++) {
      const from = this.#sequence.next;
      let isFirst = true;
      let isBroken = false;
      this.statistics.replays++;
      const failure = await replay(from, (answer) => {
        if (generation !== this.#generation) return false;
        isBroken = !this.#takeReplayed(answer, isFirst);
        isFirst = false;
        return !isBroken;
      });
      if (generation !== this.#generation) return undefined;
      if (failure === undefined && !isBroken) return undefined;
      if (this.#sequence.next === from) return `the replay failed: ${failure ?? 'it has holes'}`;
    }
    return `the replay is not whole after ${MAX_REPLAY_ROUNDS} requests`;
  }

  /** False: answers before this one are missing, which may be had if they are asked for again. */
  #takeReplayed(answer: SequencedPayload, isFirst: boolean): boolean {
    const verdict = this.#sequence.judge(answer.sequence);
    if (verdict === 'repeat') return true;
    if (verdict === 'gap') {
      if (!isFirst) return false;
      this.#canRebuild = false;
      this.#lose(`the engine keeps messages from ${answer.sequence} on only`);
    }
    this.statistics.replayedBatches++;
    if (this.#take(answer) === undefined) {
      this.#lose(`message ${answer.sequence} cannot be read`);
      this.#sequence.accept(answer.sequence);
    }
    return true;
  }

  /** A message that cannot be read may be whole in a replay; if not, what it said is lost. */
  async #takeOrAskAgain(message: SequencedPayload): Promise<Applied | undefined> {
    const applied = this.#take(message);
    if (applied !== undefined) return applied;
    const generation = this.#generation;
    await this.#catchUp();
    if (generation !== this.#generation) return undefined;
    if (this.#sequence.judge(message.sequence) === 'repeat') return undefined;
    this.#lose(`message ${message.sequence} cannot be read`);
    this.#sequence.accept(message.sequence);
    return undefined;
  }

  /** Undefined: the payload is no batch of events, and nothing was done. */
  #take({ sequence, payload }: SequencedPayload): Applied | undefined {
    const decoded = decodeKvEvents(payload);
    if (!decoded.ok) {
      this.#tell('bad-frame', `message ${sequence} cannot be read: ${decoded.reason}`);
      return undefined;
    }
    const applied = this.#blocks.apply(decoded.batch.events);
    this.#sequence.accept(sequence);
    this.#count(applied);
    this.#emit(applied.changes);
    if (applied.otherBlockSize !== undefined) this.#refuseBlockSize(applied.otherBlockSize);
    if (applied.isOverfull) this.#tell('lost', 'more blocks than any engine has: all are dropped');
    if (applied.isOvercounted) {
      const why = 'the engine tells more blocks than it has, so it tells some of them again';
      this.#tell('lost', `${why}: all are dropped, and each counts once from now on`);
    }
    return applied;
  }

  #refuseBlockSize(blockSize: number): void {
    this.#tell('block-size', sizeMessage(blockSize, this.#blocks.blockSize));
    if (this.#blocks.size > 0) this.#emit(this.#blocks.clear());
  }

  async #onOrphans(orphanBlocks: number): Promise<void> {
    this.#tell('orphan', `${orphanBlocks} blocks follow blocks that are unknown`);
    const { replay, nowMs } = this.#options;
    const atMs = nowMs();
    if (replay === undefined || !this.#canRebuild) return;
    if (atMs - this.#rebuiltAtMs < REBUILD_PAUSE_MS) return;
    this.#rebuiltAtMs = atMs;
    const generation = this.#generation;
    // The first answer alone says whether everything since the engine's start can be had.
    let first: number | undefined;
    await replay(0, ({ sequence }) => {
      first = sequence;
      return false;
    });
    if (generation !== this.#generation || first === undefined) return;
    this.#canRebuild = first === 0;
    if (!this.#canRebuild) return;
    this.#emit(this.#blocks.clear());
    this.#sequence.accept(-1);
    const failure = await this.#catchUp();
    if (failure !== undefined && generation === this.#generation) this.#lose(failure);
  }

  /** Blocks may have come and gone unheard: none is certain any more. */
  #lose(reason: string): void {
    this.#tell('lost', `${reason}: known blocks are dropped`);
    this.#emit(this.#blocks.clear());
  }

  #emit(changes: readonly TierChanges[]): void {
    const { dpRank, sink } = this.#options;
    for (const { tier, changes: own } of changes) sink.onKv({ dpRank, tier, changes: own });
  }

  #count(applied: Applied): void {
    const { statistics } = this;
    statistics.batches++;
    statistics.storedBlocks += applied.storedBlocks;
    statistics.removedBlocks += applied.removedBlocks;
    statistics.clears += applied.clears;
    statistics.orphanBlocks += applied.orphanBlocks;
    statistics.ignoredEvents += applied.ignoredEvents;
  }

  #tell(kind: Parameters<ProblemTeller['tell']>[0], message: string): void {
    this.#options.problems.tell(kind, this.#options.dpRank, message);
  }
}

function sizeMessage(heard: number, expected: number | undefined): string {
  return `the engine's events name blocks of ${heard} tokens, but routers were told ${expected}`;
}
