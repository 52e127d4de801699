import type { TransferAddress } from '@busbar/engine';
import { advertisedHost } from '@busbar/service';
import type { WorkerConfig } from '../config.ts';

/** Where a worker serves KV and probes, and the name under which others reach it. */
export function transferAddress({
  transferHost,
  transferPort,
}: Pick<WorkerConfig, 'transferHost' | 'transferPort'>): Required<TransferAddress> {
  return { host: transferHost, port: transferPort, advertisedHost: reachable(transferHost) };
}

/** Without the brackets that an IPv6 address has in a URL. */
function reachable(host: string): string {
  return advertisedHost(host).replace(/^\[(.*)\]$/, '$1');
}
