import { messageOf } from '@busbar/base';
import type { Tier } from '@busbar/protocol';
import type { Subscriber } from 'zeromq';
import type {
  KvEventSource,
  KvEvents,
  KvEventsConfig,
  KvEventsOptions,
  KvEventsStatistics,
} from './port.ts';
import { ProblemTeller } from './problem-teller.ts';
import { RankSource } from './rank-source.ts';
import { attach, listen, loadZmq, loopback, replayOverDealer, type ZmqModule } from './zmq.ts';

/** Messages that a child keeps for replays: minutes of steps. */
const BUFFER_STEPS = 10_000;

interface Rank {
  source: RankSource;
  socket: Subscriber;
  /** Ends when the socket is closed. */
  done: Promise<void>;
}

/** Loads the native module `zeromq` upon `open`, not before. */
export function createKvEvents(options: KvEventsOptions): KvEvents {
  return new KvEventsListener(options);
}

class KvEventsListener implements KvEvents {
  readonly #options: KvEventsOptions;
  readonly #problems: ProblemTeller;
  readonly #closing = new AbortController();
  #ranks: Rank[] = [];
  #blockSize: number | undefined;
  #kvBlocks: number | undefined;

  constructor(options: KvEventsOptions) {
    this.#options = options;
    this.#problems = new ProblemTeller(
      (problem) => options.onProblem(problem),
      () => performance.now(),
    );
  }

  async open(): Promise<KvEventsConfig | undefined> {
    const zmq = await loadZmq();
    const { from, topic } = this.#options;
    if (from.kind === 'attach') {
      for (const source of from.sources) await this.#attach(zmq, source);
      return undefined;
    }
    const { sockets, port, replayPort } = await listen(zmq, from.dpRanks, topic);
    for (const [dpRank, socket] of sockets.entries()) {
      const source = this.#source(zmq, dpRank, loopback(replayPort + dpRank));
      this.#ranks.push({ source, socket, done: this.#follow(source, socket) });
    }
    return {
      enable_kv_cache_events: true,
      publisher: 'zmq',
      endpoint: loopback(port),
      replay_endpoint: loopback(replayPort),
      topic,
      buffer_steps: BUFFER_STEPS,
    };
  }

  expectBlocks(blockSize: number, kvBlocks?: number): void {
    this.#blockSize = blockSize;
    this.#kvBlocks = kvBlocks;
    for (const { source } of this.#ranks) source.expectBlocks(blockSize, kvBlocks);
  }

  engineGone(): void {
    for (const { source } of this.#ranks) source.forget();
  }

  blocks(): { dpRank: number; tier: Tier; hashes: Uint32Array }[] {
    return this.#ranks.flatMap(({ source }) => {
      return source.blocks().map((blocks) => ({ dpRank: source.dpRank, ...blocks }));
    });
  }

  statistics(): KvEventsStatistics {
    const sum = (name: keyof RankSource['statistics']): number => {
      return this.#ranks.reduce((total, { source }) => total + source.statistics[name], 0);
    };
    return {
      batches: sum('batches'),
      storedBlocks: sum('storedBlocks'),
      removedBlocks: sum('removedBlocks'),
      clears: sum('clears'),
      badFrames: this.#problems.count('bad-frame'),
      gaps: this.#problems.count('gap'),
      replays: sum('replays'),
      replayedBatches: sum('replayedBatches'),
      losses: this.#problems.count('lost'),
      restarts: this.#problems.count('restart'),
      orphanBlocks: sum('orphanBlocks'),
      ignoredEvents: sum('ignoredEvents'),
      blocks: this.#ranks.reduce((total, { source }) => total + source.size, 0),
    };
  }

  async close(): Promise<void> {
    this.#closing.abort();
    for (const { socket } of this.#ranks) socket.close();
    await Promise.all(this.#ranks.map(({ done }) => done));
  }

  async #attach(zmq: ZmqModule, from: KvEventSource): Promise<void> {
    const { dpRank, replayEndpoint } = from;
    const socket = await attach(zmq, from, this.#options.topic);
    const source = this.#source(zmq, dpRank, replayEndpoint);
    socket.events.on('disconnect', () => source.onConnectionLost());
    const done = source.begin().then(() => this.#follow(source, socket));
    this.#ranks.push({ source, socket, done });
  }

  #source(zmq: ZmqModule, dpRank: number, replayEndpoint: string | undefined): RankSource {
    const { sink, from } = this.#options;
    const { signal } = this.#closing;
    const source = new RankSource({
      dpRank,
      sink: {
        onKv: (changes) => {
          if (!signal.aborted) sink.onKv(changes);
        },
        onCacheReset: () => {
          if (!signal.aborted) sink.onCacheReset();
        },
      },
      hasSiblings: (from.kind === 'attach' ? from.sources.length : from.dpRanks) > 1,
      ...(replayEndpoint !== undefined && {
        replay: (first, take) => replayOverDealer(zmq, replayEndpoint, first, take, signal),
      }),
      problems: this.#problems,
      nowMs: () => performance.now(),
    });
    if (this.#blockSize !== undefined) source.expectBlocks(this.#blockSize, this.#kvBlocks);
    return source;
  }

  /** What comes while a replay runs waits in the socket's own queue, which has a bound. */
  async #follow(source: RankSource, socket: Subscriber): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        await source.hear(await socket.receive());
      } catch (error) {
        if (signal.aborted || socket.closed) return;
        this.#problems.tell('bad-frame', source.dpRank, `a message failed: ${messageOf(error)}`);
      }
    }
  }
}
