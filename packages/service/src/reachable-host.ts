import { isIPv6 } from 'node:net';
import { type NetworkInterfaceInfo, networkInterfaces } from 'node:os';

export type Interfaces = Readonly<Record<string, readonly NetworkInterfaceInfo[] | undefined>>;

const LOOPBACK = { IPv4: '127.0.0.1', IPv6: '::1' };

/**
 * The host part of a URL under which other machines reach a server that listens on `host`. A wildcard is an address for
 * listening only: the first one of the machine's own that is neither loopback nor link-local stands for it, loopback when there is none.
 */
export function reachableHost(host: string, interfaces: Interfaces): string {
  const address = host === '0.0.0.0' || host === '::' ? ownAddress(host, interfaces) : host;
  return isIPv6(address) ? `[${address}]` : address;
}

/** `reachableHost` with the interfaces of this machine. */
export function advertisedHost(host: string): string {
  return reachableHost(host, networkInterfaces());
}

function ownAddress(wildcard: '0.0.0.0' | '::', interfaces: Interfaces): string {
  const usable = Object.values(interfaces)
    .flatMap((infos) => infos ?? [])
    .filter(({ internal, address }) => !internal && !isLinkLocal(address));
  // A server on "::" answers IPv4 too, and that is what most networks of containers speak.
  const ipv4 = usable.find(({ family }) => family === 'IPv4');
  if (ipv4 !== undefined) return ipv4.address;
  if (wildcard === '0.0.0.0') return LOOPBACK.IPv4;
  return usable.find(({ family }) => family === 'IPv6')?.address ?? LOOPBACK.IPv6;
}

function isLinkLocal(address: string): boolean {
  return address.startsWith('169.254.') || /^fe[89ab]/i.test(address);
}
