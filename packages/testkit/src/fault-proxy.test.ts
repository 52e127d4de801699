import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FaultProxy, startFaultProxy, waitFor } from './index.ts';

const echo = createServer((socket) => socket.on('error', () => {}).pipe(socket));
let proxy: FaultProxy;

before(async () => {
  echo.listen(0, '127.0.0.1');
  await once(echo, 'listening');
  proxy = await startFaultProxy((echo.address() as AddressInfo).port);
});
after(async () => {
  await proxy.close();
  echo.close();
});

interface Client {
  socket: Socket;
  received: () => string;
}

async function dial(): Promise<Client> {
  let text = '';
  const socket = connect(proxy.port, '127.0.0.1').on('error', () => {});
  socket.on('data', (chunk) => {
    text += chunk.toString();
  });
  await once(socket, 'connect');
  return { socket, received: () => text };
}

test('passes bytes on, delays them in order, and stops delaying', async () => {
  const { socket, received } = await dial();
  proxy.delay(200);
  const startMs = performance.now();
  socket.write('a');
  await sleep(10);
  socket.write('b');
  await sleep(10);
  assert.equal(received(), '');
  await waitFor(() => received() === 'ab', 5_000, 'delayed echo');
  assert.ok(performance.now() - startMs >= 390);
  proxy.heal();
  const healedMs = performance.now();
  socket.write('c');
  await waitFor(() => received() === 'abc', 1_000, 'echo');
  assert.ok(performance.now() - healedMs < 300);
  socket.destroy();
});

test('pause loses nothing', async () => {
  const { socket, received } = await dial();
  proxy.pause();
  socket.write('held');
  await sleep(30);
  assert.equal(received(), '');
  proxy.heal();
  await waitFor(() => received() === 'held', 1_000, 'held bytes');
  socket.destroy();
});

test('a black hole swallows bytes, and the connection ends at heal', async () => {
  const { socket, received } = await dial();
  proxy.blackHole();
  socket.write('lost');
  await sleep(30);
  assert.equal(received(), '');
  assert.equal(socket.destroyed, false);
  const closed = once(socket, 'close');
  proxy.heal();
  await closed;
});

test('cut closes what is open and refuses what comes', async () => {
  const { socket } = await dial();
  const closed = once(socket, 'close');
  proxy.cut();
  await closed;
  await waitFor(() => proxy.connections === 0, 1_000, 'no connections');
  const second = connect(proxy.port, '127.0.0.1').on('error', () => {});
  await once(second, 'close');
  proxy.heal();
  const { socket: third, received } = await dial();
  third.write('x');
  await waitFor(() => received() === 'x', 1_000, 'echo after heal');
  third.destroy();
});
