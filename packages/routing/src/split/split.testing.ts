import {
  type LinkRecord,
  PROTOCOL_VERSION,
  type TransferInfo,
  type WorkerInfo,
} from '@busbar/protocol';
import { ROUTER_DEFAULTS } from '../defaults.ts';
import { Bench, type Placed, recordOf, replyOf } from '../testing.ts';
import type { Disaggregation, RouterEffect, SplitRecord } from '../types.ts';

/** What the tests of split requests share. */

/** Qwen3-0.6B in bfloat16: 28 layers, 8 KV heads of 128. */
export const KV_BYTES_PER_TOKEN = 114_688;
/** 3,072 tokens, about 352 MB of KV. */
export const LONG_BLOCKS = 192;

export const GBIT = 125_000;

export function transferOf(host: string, changes: Partial<TransferInfo> = {}): TransferInfo {
  return {
    protocol: 'tcp',
    revision: { engine: 'mock 1', kvLayout: 'NHD' },
    kvBytesPerToken: KV_BYTES_PER_TOKEN,
    endpoint: `${host}:7000`,
    ...changes,
  };
}

export function linkRecord(
  prefillWorkerId: string,
  decodeWorkerId: string,
  changes: Partial<LinkRecord> = {},
): LinkRecord {
  return {
    protocol: PROTOCOL_VERSION,
    prefillWorkerId,
    decodeWorkerId,
    transferProtocol: 'tcp',
    transfers: 1,
    failures: 0,
    bytesTotal: 1e9,
    busyMsTotal: 1_000,
    bytesPerMs: GBIT,
    latencyMs: 1,
    source: 'transfers',
    updatedAt: '2026-01-01T00:00:00Z',
    ...changes,
  };
}

export class SplitBench extends Bench {
  constructor(
    disaggregation: Partial<Disaggregation> = {},
    config: ConstructorParameters<typeof Bench>[0] = {},
    seed = 1,
  ) {
    super(
      { ...config, disaggregation: { ...ROUTER_DEFAULTS.disaggregation, ...disaggregation } },
      seed,
    );
  }

  /** A decode worker on a host of its own. */
  decode(id: string, info: Partial<WorkerInfo> = {}): RouterEffect[] {
    return this.join(id, { transfer: transferOf(`host-${id}`), ...info });
  }

  prefill(id: string, info: Partial<WorkerInfo> = {}): RouterEffect[] {
    return this.join(id, { role: 'prefill', transfer: transferOf(`host-${id}`), ...info });
  }

  link(
    prefillWorkerId: string,
    decodeWorkerId: string,
    changes: Partial<LinkRecord> = {},
  ): RouterEffect[] {
    return this.run(
      this.core.onLink(linkRecord(prefillWorkerId, decodeWorkerId, changes), this.nowMs),
    );
  }

  pair(prefillWorkerId: string, decodeWorkerId: string) {
    const found = this.core
      .pairs(this.nowMs)
      .find(
        (view) =>
          view.prefillWorkerId === prefillWorkerId && view.decodeWorkerId === decodeWorkerId,
      );
    if (found === undefined) throw new Error(`no pair of ${prefillWorkerId} and ${decodeWorkerId}`);
    return found;
  }

  /** The prefill leg of a placement as a placement, for `first` and `end`. */
  legOf({ prefill, ...rest }: Placed): Placed {
    if (prefill === undefined) throw new Error('the request was not split');
    const { decisionId, workerId, expectedCachedTokens } = prefill;
    return { ...rest, decisionId, workerId, expectedCachedTokens };
  }
}

export function splitOf(effects: readonly RouterEffect[]): SplitRecord {
  const { split } = recordOf(effects);
  if (split === undefined) throw new Error('a split was not in question');
  return split;
}

export function codeOf(effects: readonly RouterEffect[]): string {
  const reply = replyOf(effects);
  if (reply === undefined) return 'waits';
  if (reply.kind === 'reject') return reply.code;
  return reply.prefill === undefined ? 'whole' : 'split';
}
