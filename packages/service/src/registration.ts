import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '@busbar/base';
import type { Bucket, Lease } from '@busbar/bus';
import {
  decodeInstance,
  decodeOrSkip,
  encodeInstance,
  type Instance,
  instanceKey,
  limit,
} from '@busbar/protocol';
import type { Logger } from '@busbar/telemetry';
import { ServiceError } from './errors.ts';

const POLL_MS = 200;
const GRACE_MS = 1_000;

/** The lease of this process in bucket `instances`. */
export interface Registration {
  readonly isHeld: boolean;
  readonly instance: Readonly<Instance>;
  /** Changes what the lease says; sent at once, again with every renewal. */
  update(change: Partial<Pick<Instance, 'worker' | 'state'>>): void;
  release(): Promise<void>;
}

/**
 * Registers this process. A lease that a dead process left under the same name is waited for at most as long as it can live; a
 * living owner makes it reject with SERVICE_ID_TAKEN.
 */
export async function register(
  bucket: Bucket,
  instance: Instance,
  log: Logger,
): Promise<Registration> {
  const key = instanceKey(instance.role, instance.id);
  await waitForOwner(bucket, key, instance);
  let current = instance;
  const lease = await bucket.lease(key, encodeInstance(current), {
    ttlMs: limit('leaseTtlMs'),
    renewMs: limit('leaseRenewMs'),
  });
  return {
    get isHeld() {
      return lease.isHeld;
    },
    get instance() {
      return current;
    },
    update: (change) => {
      current = { ...current, ...change };
      send(lease, current, log);
    },
    release: () => lease.release(),
  };
}

/** A value that could not be sent now goes out with the next renewal. */
function send(lease: Lease, instance: Instance, log: Logger): void {
  lease.update(encodeInstance(instance)).catch((error: unknown) => {
    log.warn({ reason: messageOf(error) }, 'the lease could not be updated at once');
  });
}

async function waitForOwner(bucket: Bucket, key: string, own: Instance): Promise<void> {
  const deadline = performance.now() + limit('leaseTtlMs') + GRACE_MS;
  for (;;) {
    const owner = await readOwner(bucket, key);
    if (owner === undefined || isDeadHere(owner, own)) return;
    if (performance.now() > deadline) {
      throw new ServiceError(
        'SERVICE_ID_TAKEN',
        `A ${own.role} with the id "${own.id}" runs already (process ${owner.pid} on ${owner.host}); choose another BUSBAR_ID or BUSBAR_NAMESPACE.`,
      );
    }
    await sleep(POLL_MS);
  }
}

async function readOwner(bucket: Bucket, key: string): Promise<Instance | undefined> {
  const entry = await bucket.get(key);
  return entry === undefined ? undefined : decodeOrSkip(decodeInstance, entry.value);
}

function isDeadHere(owner: Instance, own: Instance): boolean {
  if (owner.host !== own.host) return false;
  if (owner.pid === own.pid) return true;
  try {
    process.kill(owner.pid, 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}
