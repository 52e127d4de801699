import { messageOf } from '@busbar/base';
import type { Bucket } from '@busbar/bus';
import type { FetchReport, LinkProbe } from '@busbar/engine';
import { type LinkFigures, LinkLedger } from '@busbar/links';
import type { TransferInfo, WorkerInfo } from '@busbar/protocol';
import type { LeaseProblemListener, ServiceContext } from '@busbar/service';
import type { FetchObserver } from '../fetch-meter.ts';
import { sweepLinks } from './link-janitor.ts';
import { LinkProber, type ProbeLink } from './link-prober.ts';
import { LinkPublisher } from './link-publisher.ts';
import { LinkWarmer } from './link-warmer.ts';
import { type Peer, type PeerListener, PeerWatch } from './peer-watch.ts';
import type { WarmUpLink } from './warm-up.ts';

/** Longer than anybody waits for a first token. */
const SLOW_MS = 10_000;
const SWEEP_EVERY_MS = 300_000;
/** Failures of one link come in bursts; one event a second tells of them all. */
const EVENT_GAP_MS = 1_000;

/** Ways to find out about a link before its first use. */
export interface LinkTries {
  probe: ProbeLink;
  /** For engines that move KV by themselves: a probe says nothing of their way, and their first transfer connects them. */
  warmUp: WarmUpLink;
}

/** What a decode worker knows of the ways into it: measures, publishes, and tells of what is slow or fails. */
export class Links implements FetchObserver, PeerListener {
  readonly #context: ServiceContext;
  readonly #own: WorkerInfo;
  readonly #ledger: LinkLedger;
  readonly #prober: LinkProber;
  readonly #warmer: LinkWarmer | undefined;
  readonly #publisher: LinkPublisher;
  readonly #bucket: Bucket;
  readonly #slow = new Set<string>();
  readonly #toldAtMs = new Map<string, number>();
  readonly #sources = new Map<number, string>();
  #watch: PeerWatch | undefined;
  #sweeper: NodeJS.Timeout | undefined;
  #stopListening: () => void = () => {};

  private constructor(
    context: ServiceContext,
    own: WorkerInfo,
    transfer: TransferInfo,
    bucket: Bucket,
    tries: LinkTries,
  ) {
    this.#context = context;
    this.#own = own;
    this.#bucket = bucket;
    this.#ledger = new LinkLedger(context.id, transfer.protocol);
    const nowMs = (): number => context.clock.monotonicMs();
    this.#publisher = new LinkPublisher({
      bucket,
      nowMs,
      wallMs: () => context.clock.wallMs(),
      onError: (error) =>
        context.log.debug({ reason: messageOf(error) }, 'a link record could not be written'),
    });
    this.#prober = new LinkProber({
      probe: tries.probe,
      rng: context.rng.fork(),
      nowMs,
      lastNewsMs: (id) => this.#ledger.lastNewsMs(id, nowMs()),
      onResult: (id, result) => this.#onProbe(id, result),
      onFailure: (id, reason) => this.#onProbeFailed(id, reason),
    });
    if (transfer.protocol === 'tcp') return;
    this.#warmer = new LinkWarmer({
      warmUp: tries.warmUp,
      rng: context.rng.fork(),
      nowMs,
      onProven: (id, tookMs) => this.#onProven(id, tookMs),
      onFailure: (id, reason) => this.#onWarmUpFailed(id, reason),
    });
  }

  /** `onProblem` hears of leases of prefill workers that cannot be read or taken. */
  static async start(
    context: ServiceContext,
    own: WorkerInfo,
    transfer: TransferInfo,
    tries: LinkTries,
    onProblem: LeaseProblemListener,
  ): Promise<Links> {
    const { bus, buckets } = context;
    const links = new Links(context, own, transfer, await bus.bucket(buckets.links), tries);
    const instances = await bus.bucket(buckets.instances);
    links.#watch = await PeerWatch.start(instances, own, links, onProblem);
    links.#sweeper = setInterval(() => void links.#sweep(instances), SWEEP_EVERY_MS);
    links.#stopListening = bus.onStatus((change) => {
      if (change === 'reconnected') links.#publisher.republish();
    });
    return links;
  }

  /** Also takes the records back, as far as there is a connection. */
  async stop(): Promise<void> {
    this.#watch?.stop();
    this.#prober.stop();
    this.#warmer?.stop();
    this.#stopListening();
    clearInterval(this.#sweeper);
    await this.#publisher.stop();
  }

  /** Figures of all links, for a person who looks. */
  view(): LinkFigures[] {
    return this.#ledger.all();
  }

  began(key: number, prefillWorkerId: string): void {
    this.#sources.set(key, prefillWorkerId);
    // An account of a peer that left would never be closed.
    if (this.#watch?.get(prefillWorkerId) === undefined) return;
    this.#ledger.began(key, prefillWorkerId, this.#context.clock.monotonicMs());
  }

  ended(key: number, report: FetchReport): void {
    const from = this.#sources.get(key);
    this.#sources.delete(key);
    const figures = this.#ledger.ended(key, report, this.#context.clock.monotonicMs());
    if (report.outcome === 'failed' && from !== undefined) this.#tellFailed(from, report);
    // Of a peer that left meanwhile nothing is published: nobody would take it back.
    if (figures === undefined || from === undefined || this.#watch?.get(from) === undefined) return;
    this.#publish(figures);
  }

  onPeer(peer: Peer): void {
    const { id, info } = peer;
    const endpoint = info.transfer?.endpoint;
    if (endpoint !== undefined) this.#prober.add(id, endpoint);
    if (this.#warmer === undefined) return;
    // Routers may know a proven link of these two names from before.
    this.#publish(this.#ledger.opened(id));
    this.#warmer.add(peer);
  }

  onPeerGone(id: string): void {
    this.#prober.remove(id);
    this.#warmer?.remove(id);
    this.#ledger.forget(id);
    this.#slow.delete(id);
    this.#toldAtMs.delete(id);
    void this.#publisher.remove(id, this.#context.id);
  }

  #onProbe(id: string, result: LinkProbe): void {
    this.#context.log.info(
      {
        prefillWorkerId: id,
        bytesPerMs: Math.round(result.bytesPerMs),
        latencyMs: Math.round(result.latencyMs * 100) / 100,
      },
      'link probed',
    );
    this.#publish(this.#ledger.probed(id, result, this.#context.clock.monotonicMs()));
  }

  #onProbeFailed(id: string, reason: string): void {
    this.#context.log.warn({ prefillWorkerId: id, reason }, 'a link could not be probed');
    this.#publish(this.#ledger.probeFailed(id, reason));
  }

  #onProven(id: string, tookMs: number): void {
    const data = { prefillWorkerId: id, tookMs: Math.round(tookMs) };
    this.#context.log.info(data, 'KV came over a new link; requests may be split over it');
    this.#publish(this.#ledger.proven(id));
  }

  #onWarmUpFailed(id: string, reason: string): void {
    const data = { prefillWorkerId: id, reason };
    this.#context.log.warn(data, 'no KV came over a new link yet; it is tried again');
    this.#publish(this.#ledger.probeFailed(id, reason));
  }

  #publish(figures: LinkFigures): void {
    this.#publisher.publish(figures);
    this.#tellSlow(figures);
  }

  /** Once for each link: the KV of the longest prompt would take longer than anybody waits. */
  #tellSlow({ prefillWorkerId, bytesPerMs, decodeWorkerId, source }: LinkFigures): void {
    const peer = this.#watch?.get(prefillWorkerId);
    const perToken = this.#own.transfer?.kvBytesPerToken;
    if (peer === undefined || perToken === undefined || bytesPerMs === 0) return;
    const tokens = Math.min(peer.info.contextTokens, this.#own.contextTokens);
    const longestMs = (tokens * perToken) / bytesPerMs;
    if (longestMs <= SLOW_MS || this.#slow.has(prefillWorkerId)) return;
    this.#slow.add(prefillWorkerId);
    const data = { prefillWorkerId, decodeWorkerId, bytesPerMs, source, tokens, longestMs };
    this.#context.log.warn(
      data,
      `the KV of a prompt of ${tokens} tokens takes ${(longestMs / 1_000).toFixed(1)} s from ${prefillWorkerId}`,
    );
    this.#context.publishEvent('kvtransfer.slow', decodeWorkerId, data);
  }

  #tellFailed(prefillWorkerId: string, { bytes, reason }: FetchReport): void {
    const data = { prefillWorkerId, decodeWorkerId: this.#context.id, bytes, reason };
    this.#context.log.warn(data, 'a fetch of KV failed');
    const nowMs = this.#context.clock.monotonicMs();
    if (nowMs - (this.#toldAtMs.get(prefillWorkerId) ?? -Infinity) < EVENT_GAP_MS) return;
    this.#toldAtMs.set(prefillWorkerId, nowMs);
    this.#context.publishEvent('kvtransfer.failed', this.#context.id, data);
  }

  async #sweep(instances: Bucket): Promise<void> {
    const { clock, log } = this.#context;
    try {
      const swept = await sweepLinks(this.#bucket, instances, clock.wallMs());
      if (swept > 0) log.info({ swept }, 'link records of dead workers deleted');
    } catch (error) {
      log.debug({ reason: messageOf(error) }, 'link records could not be swept');
    }
  }
}
