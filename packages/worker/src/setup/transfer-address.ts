import type { TransferAddress } from '@busbar/engine';
import { advertisedHost, portError } from '@busbar/service';
import type { WorkerConfig } from '../config.ts';

/** Where a worker serves KV and probes, and the name under which others reach it. */
export function transferAddress({
  transferHost,
  transferPort,
}: Pick<WorkerConfig, 'transferHost' | 'transferPort'>): Required<TransferAddress> {
  return { host: transferHost, port: transferPort, advertisedHost: reachable(transferHost) };
}

const LOOPBACK = /^(127\.|localhost$|\[?::1\]?$)/;

/** A sentence when workers on other hosts are likely and could not fetch KV from here. */
export function unreachableHint({
  transferHost,
  natsUrl,
}: Pick<WorkerConfig, 'transferHost' | 'natsUrl'>): string | undefined {
  if (!LOOPBACK.test(transferHost)) return undefined;
  const hosts = natsUrl.split(',').map((url) => new URL(url.trim()).hostname);
  if (hosts.every((host) => LOOPBACK.test(host))) return undefined;
  return `decode workers on other hosts cannot fetch KV from ${transferHost}; set BUSBAR_TRANSFER_HOST`;
}

/** An error of the port for KV, by what can be done about it; any other as it is. */
export function asTransferError(
  error: unknown,
  { transferHost, transferPort }: Pick<WorkerConfig, 'transferHost' | 'transferPort'>,
): unknown {
  if (!isSystemError(error)) return error;
  const isOfName = error.syscall === 'getaddrinfo' && error.hostname === transferHost;
  if (error.syscall !== 'listen' && !isOfName) return error;
  return portError(error, {
    what: 'Port for KV',
    host: transferHost,
    port: transferPort,
    variable: 'BUSBAR_TRANSFER_PORT',
    hostVariable: 'BUSBAR_TRANSFER_HOST',
    code: 'SERVICE_PORT',
  });
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException & { hostname?: string } {
  return error instanceof Error && 'syscall' in error;
}

/** Without the brackets that an IPv6 address has in a URL. */
function reachable(host: string): string {
  return advertisedHost(host).replace(/^\[(.*)\]$/, '$1');
}
