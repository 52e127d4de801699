import type { Bucket } from '@busbar/bus';
import { decodeInstance, type Instance, instanceKey } from '@busbar/protocol';
import { type LeaseProblemListener, LeaseWatch } from '@busbar/service';

const ROLE = 'frontend';
const PREFIX = instanceKey(ROLE, '');

/**
 * Tells which frontends left for good, or came back under the same name as another process: nobody reads their streams any
 * more. A frontend that loses its lease for a moment keeps its requests.
 */
export async function watchFrontends(
  bucket: Bucket,
  onGone: (frontendId: string) => void,
  onProblem: LeaseProblemListener,
): Promise<LeaseWatch<Instance>> {
  const watch = new LeaseWatch({
    under: [ROLE],
    decode: decodeInstance,
    isSameOwner: (before, now) => before.epoch === now.epoch,
    mayReturn: () => true,
    listener: {
      arrived: () => {},
      changed: () => {},
      left: (key) => onGone(key.slice(PREFIX.length)),
    },
    onProblem,
  });
  await watch.open(bucket);
  return watch;
}
