import type { Bucket } from '@busbar/bus';
import { decodeLinkRecord, decodeOrSkip, instanceKey } from '@busbar/protocol';

/** Clocks of two hosts may differ, and a lease may be away for a moment. */
const DEAD_MS = 120_000;

/** Deletes records of decode workers that were killed, which hold no lease: nobody else does. Answers how many. */
export async function sweepLinks(
  links: Bucket,
  instances: Bucket,
  wallMs: number,
): Promise<number> {
  const leases = await instances.entries({ under: ['decode'] });
  const alive = new Set(leases.map(({ key }) => key));
  let swept = 0;
  for (const { key, value } of await links.entries()) {
    const record = decodeOrSkip(decodeLinkRecord, value);
    if (record === undefined || alive.has(instanceKey('decode', record.decodeWorkerId))) continue;
    if (wallMs - Date.parse(record.updatedAt) < DEAD_MS) continue;
    await links.delete(key);
    swept++;
  }
  return swept;
}
