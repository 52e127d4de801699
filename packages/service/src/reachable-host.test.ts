import assert from 'node:assert/strict';
import type { NetworkInterfaceInfo } from 'node:os';
import { test } from 'node:test';
import { reachableHost } from './reachable-host.ts';

const v4 = (address: string, internal = false): NetworkInterfaceInfo => ({
  address,
  internal,
  family: 'IPv4',
  netmask: '255.255.0.0',
  mac: '02:42:ac:12:00:03',
  cidr: `${address}/16`,
});
const v6 = (address: string, internal = false): NetworkInterfaceInfo => ({
  address,
  internal,
  family: 'IPv6',
  netmask: 'ffff:ffff:ffff:ffff::',
  mac: '02:42:ac:12:00:03',
  cidr: `${address}/64`,
  scopeid: 0,
});

const lo = [v4('127.0.0.1', true), v6('::1', true)];

test('a wildcard becomes an address that others reach', () => {
  const eth0 = [v6('fe80::42'), v6('2001:db8::3'), v4('169.254.1.1'), v4('172.18.0.3')];
  for (const wildcard of ['0.0.0.0', '::'])
    assert.equal(reachableHost(wildcard, { lo, eth0 }), '172.18.0.3');
  assert.equal(reachableHost('::', { lo, eth0: [v6('2001:db8::3')] }), '[2001:db8::3]');
});

test('without a network it is loopback', () => {
  assert.equal(reachableHost('0.0.0.0', { lo, gone: undefined }), '127.0.0.1');
  assert.equal(reachableHost('0.0.0.0', { lo, eth0: [v6('2001:db8::3')] }), '127.0.0.1');
  assert.equal(reachableHost('::', {}), '[::1]');
});

test('every other host stays as it is', () => {
  const interfaces = { eth0: [v4('172.18.0.3')] };
  for (const host of ['127.0.0.1', 'worker-3.example', '10.0.0.7'])
    assert.equal(reachableHost(host, interfaces), host);
  assert.equal(reachableHost('::1', interfaces), '[::1]');
});
