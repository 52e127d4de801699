import type { Bucket } from '@busbar/bus';
import { decodeLinkRecord, decodeOrSkip } from '@busbar/protocol';

/** Clocks of two hosts may differ, and a lease may be away for a moment. */
const DEAD_MS = 120_000;

/** Deletes records of decode workers that were killed: nobody else does. */
export async function sweepLinks(
  bucket: Bucket,
  options: { wallMs: number; isAlive: (decodeWorkerId: string) => boolean },
): Promise<number> {
  let swept = 0;
  for (const { key, value } of await bucket.entries()) {
    const record = decodeOrSkip(decodeLinkRecord, value);
    if (record === undefined || options.isAlive(record.decodeWorkerId)) continue;
    if (options.wallMs - Date.parse(record.updatedAt) < DEAD_MS) continue;
    await bucket.delete(key);
    swept++;
  }
  return swept;
}
