import { assert, type Clock } from '@busbar/base';
import { limit, type TransferInfo, type TransferParams } from '@busbar/protocol';
import type { EngineRequest, FetchReport, StagedEnd } from './port.ts';
import { transferHashes } from './transfer/block-content.ts';
import { FetchPool } from './transfer/fetch-pool.ts';
import { type StagedPrompt, StagedStore } from './transfer/staged-store.ts';
import { createTransferServer } from './transfer/transfer-server.ts';
import type { TransferAddress, TransferServer } from './transfer/types.ts';

/** Changes whenever blocks of the mock get other contents or go over the wire in another way. */
const KV_LAYOUT = 'noise-2';

export interface MockTransferOptions {
  address: TransferAddress;
  /** Whether it listens and stages. */
  isServer: boolean;
  engineVersion: string;
  model: string;
  blockSize: number;
  kvBytesPerToken: number;
  stagedKvMs: number;
  clock: Clock;
}

export interface MockTransferEvents {
  onStagedEnd(key: number, how: StagedEnd): void;
  onFetchBegin(key: number): void;
  /** What began moves nothing yet: the other side serves others first. */
  onFetchBusy(key: number): void;
  onFetchEnd(key: number, report: FetchReport, hasBegun: boolean): void;
}

type TcpParams = Extract<TransferParams, { protocol: 'tcp' }>['params'];

interface ExpectedFetch {
  params: TcpParams;
  hashes: Uint32Array;
  validUntilMs: number;
}

/** The part of a mock engine that moves KV: it serves what its engine has staged, and fetches what its engine asks for. */
export class MockTransfer {
  readonly #options: MockTransferOptions;
  readonly #events: MockTransferEvents;
  readonly #blockBytes: number;
  readonly #staged: StagedStore;
  readonly #fetches: FetchPool;
  /** Requests that will stage, and those that will fetch, from their submission on. */
  readonly #staging = new Map<number, Omit<StagedPrompt, 'blockBytes'>>();
  readonly #transferIds = new Set<string>();
  readonly #expected = new Map<number, ExpectedFetch>();
  #server: TransferServer | undefined;

  constructor(options: MockTransferOptions, events: MockTransferEvents) {
    this.#options = options;
    this.#events = events;
    this.#blockBytes = options.blockSize * options.kvBytesPerToken;
    assert(this.#blockBytes <= limit('kvBlockBytes'), 'a block fits into the wire');
    this.#staged = new StagedStore(options.stagedKvMs, (key, how) => {
      this.#forgetStaging(key);
      events.onStagedEnd(key, how);
    });
    this.#fetches = new FetchPool(options.clock, {
      onBegin: (key) => events.onFetchBegin(key),
      onBusy: (key) => events.onFetchBusy(key),
      onEnd: (key, report, hasBegun) => events.onFetchEnd(key, report, hasBegun),
    });
  }

  /** Rejects when the port cannot be opened. */
  async open(): Promise<TransferInfo> {
    const { address, isServer, engineVersion, model, blockSize, kvBytesPerToken } = this.#options;
    if (isServer) {
      this.#server = await createTransferServer({ ...address, staged: this.#staged });
    }
    return {
      protocol: 'tcp',
      revision: {
        engine: 'mock',
        version: engineVersion,
        model,
        blockSize: String(blockSize),
        kvLayout: KV_LAYOUT,
      },
      kvBytesPerToken,
      ...(this.#server === undefined ? {} : { endpoint: this.#server.endpoint }),
    };
  }

  /** Why this request cannot be taken, or undefined. */
  refusal({ stageKv, kvSource }: EngineRequest): string | undefined {
    if (stageKv !== undefined && this.#server === undefined) return 'this engine stages no KV';
    if (stageKv !== undefined && this.#transferIds.has(stageKv.transferId)) {
      return 'the transfer id is in use';
    }
    if (kvSource !== undefined && kvSource.transfer.protocol !== 'tcp') {
      return `this engine fetches KV over tcp, not over ${kvSource.transfer.protocol}`;
    }
    return undefined;
  }

  /** Remembers what an accepted request stages or fetches. `hashes` are those of its full blocks. */
  expect(request: EngineRequest, hashes: Uint32Array, hashSeed: bigint): void {
    const { key, tokens, stageKv, kvSource } = request;
    if (stageKv === undefined && kvSource === undefined) return;
    const all = transferHashes(tokens, hashes, this.#options.blockSize, hashSeed);
    if (stageKv !== undefined) {
      this.#transferIds.add(stageKv.transferId);
      this.#staging.set(key, { key, transferId: stageKv.transferId, hashes: all });
    }
    if (kvSource?.transfer.protocol === 'tcp') {
      const { params } = kvSource.transfer;
      const validUntilMs = this.#options.clock.monotonicMs() + kvSource.validForMs;
      this.#expected.set(key, { params, hashes: all, validUntilMs });
    }
  }

  /** From now on what request `key` computed waits to be fetched; undefined when it does not stage. */
  stage(key: number): TransferParams | undefined {
    const staging = this.#staging.get(key);
    const server = this.#server;
    if (staging === undefined || server === undefined) return undefined;
    this.#staged.add({ ...staging, blockBytes: this.#blockBytes });
    return {
      protocol: 'tcp',
      params: {
        transferId: staging.transferId,
        endpoint: server.endpoint,
        blocks: staging.hashes.length / 2,
        blockBytes: this.#blockBytes,
      },
    };
  }

  /** Begins the fetch for which the engine has made room; its end comes as an event, in this call perhaps. */
  fetch(key: number, fromBlock: number): void {
    const expected = this.#expected.get(key);
    assert(expected !== undefined, 'a fetch was announced');
    const { hashes, validUntilMs } = expected;
    const { endpoint, transferId, blocks, blockBytes } = expected.params;
    this.#expected.delete(key);
    if (blocks !== hashes.length / 2 || blockBytes !== this.#blockBytes) {
      const own = `${hashes.length / 2} blocks of ${this.#blockBytes} bytes`;
      const reason = `the KV of this prompt is ${own}, not ${blocks} of ${blockBytes}`;
      this.#events.onFetchEnd(key, { outcome: 'failed', bytes: 0, reason }, false);
      return;
    }
    const timeoutMs = limit('kvFetchMs');
    const what = { endpoint, transferId, fromBlock, hashes, blockBytes, timeoutMs };
    this.#fetches.start({ key, ...what, validUntilMs });
  }

  isStaged(key: number): boolean {
    return this.#staged.has(key);
  }

  /** Gives up what is staged; answers whether something was. */
  release(key: number): boolean {
    return this.#staged.release(key);
  }

  /** The request ended without being staged, or will not fetch. */
  forget(key: number): void {
    this.#forgetStaging(key);
    this.#expected.delete(key);
    this.#fetches.cancel(key);
  }

  /** Gives up everything, and closes the port and all connections. */
  async close(): Promise<void> {
    await this.#fetches.stop();
    this.#staged.releaseAll();
    await this.#server?.close();
    this.#server = undefined;
  }

  #forgetStaging(key: number): void {
    const staging = this.#staging.get(key);
    if (staging === undefined) return;
    this.#staging.delete(key);
    this.#transferIds.delete(staging.transferId);
  }
}
