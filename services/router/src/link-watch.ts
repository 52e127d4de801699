import type { Bucket } from '@busbar/bus';
import { decodeLinkRecord, type LinkRecord, linkKey, ProtocolError } from '@busbar/protocol';
import { type LeaseProblemListener, LeaseWatch } from '@busbar/service';

/** What a router needs to know of links. */
export interface LinkListener {
  onLink(record: LinkRecord): void;
  onLinkGone(prefillWorkerId: string, decodeWorkerId: string): void;
}

/** Follows bucket `links`, in which decode workers say what they measured of the ways into them. */
export async function watchLinks(
  bucket: Bucket,
  listener: LinkListener,
  onProblem: LeaseProblemListener,
): Promise<LeaseWatch<LinkRecord>> {
  const watch = new LeaseWatch({
    decode: decodeOwn,
    listener: {
      arrived: (_, record) => listener.onLink(record),
      changed: (_, record) => listener.onLink(record),
      left: (_, record) => listener.onLinkGone(record.prefillWorkerId, record.decodeWorkerId),
    },
    onProblem,
  });
  await watch.open(bucket);
  return watch;
}

/** A worker speaks of its own links only: the key, which permissions can bind, must say the same. */
function decodeOwn(value: Uint8Array, key: string): LinkRecord {
  const record = decodeLinkRecord(value);
  if (linkKey(record.prefillWorkerId, record.decodeWorkerId) === key) return record;
  throw new ProtocolError('PROTOCOL_BAD_FRAME', 'the record is under the key of another link');
}
