import { assert } from '@busbar/base';
import {
  type KvSource,
  parseTransferParams,
  type TransferInfo,
  type TransferParams,
} from '@busbar/protocol';
import { minorOf } from '../engine-facts.ts';

/** A decode engine of this minor version or later dies of parameters without `remote_request_id`. */
const REQUEST_ID_SINCE = 14;
/** From this minor version on a decode engine renews the lease of KV for which its request waits. */
const HEARTBEATS_SINCE = 22;
const INCOMPLETE =
  'the transfer parameters lack remote_request_id; a decode engine would die of them';

/** What asks a prefill engine to keep the KV. The long form: some versions want every field. */
export function stageParams(
  protocol: 'nixl' | 'mooncake',
  transferId: string,
): Record<string, unknown> {
  if (protocol === 'mooncake') {
    return { do_remote_decode: true, do_remote_prefill: false, transfer_id: transferId };
  }
  return {
    do_remote_decode: true,
    do_remote_prefill: false,
    remote_engine_id: null,
    remote_block_ids: null,
    remote_host: null,
    remote_port: null,
  };
}

/** What a prefill answered, complete; throws with a sentence when it is not. Fields that nobody here knows pass as they are. */
export function nixlTransfer(
  params: unknown,
  version: string,
): Extract<TransferParams, { protocol: 'nixl' }> {
  const transfer = parseTransferParams({ protocol: 'nixl', params });
  assert(transfer.protocol === 'nixl', 'the protocol is the one that was given');
  if (lacksRequestId(transfer, version)) throw new Error(INCOMPLETE);
  return transfer;
}

/** MooncakeConnector answers nothing to a prefill: what the decode leg needs is known before. */
export function mooncakeTransfer(transfer: TransferInfo, transferId: string): TransferParams {
  return {
    protocol: 'mooncake',
    params: {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_bootstrap_addr: transfer.bootstrapAddr ?? '',
      remote_engine_id: transfer.engineId ?? '',
      transfer_id: transferId,
    },
  };
}

/**
 * Whether a request may wait in the decode engine for longer than the lease. Where not, the engine may read blocks that hold another
 * request by then, and says nothing. Mooncake's prefill engine sends by itself, and only what it still has.
 */
export function renewsLease(protocol: 'nixl' | 'mooncake', version: string): boolean {
  return protocol !== 'nixl' || (minorOf(version) ?? HEARTBEATS_SINCE) >= HEARTBEATS_SINCE;
}

/** Why an engine of this version cannot fetch by these parameters; undefined when it can. */
export function refuseSource({ transfer }: KvSource, version: string): string | undefined {
  return lacksRequestId(transfer, version) ? INCOMPLETE : undefined;
}

function lacksRequestId({ protocol, params }: TransferParams, version: string): boolean {
  const isNeeded = (minorOf(version) ?? REQUEST_ID_SINCE) >= REQUEST_ID_SINCE;
  return protocol === 'nixl' && isNeeded && params['remote_request_id'] === undefined;
}
