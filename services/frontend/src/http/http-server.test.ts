import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../scripted-stack.testing.ts';
import { type HttpServer, startHttpServer } from './http-server.ts';

/** More than both socket buffers of a loopback connection take. */
const BIG = 'x'.repeat(32 * 1024 * 1024);

async function serve(
  answer: (response: ServerResponse) => void,
  stallMs?: number,
): Promise<HttpServer> {
  return await startHttpServer({
    host: '127.0.0.1',
    port: 0,
    reusePort: false,
    routes: { exact: { '/': { GET: (_, response) => answer(response) } }, below: {} },
    onFault: assert.ifError,
    ...(stallMs === undefined ? {} : { stallMs }),
  });
}

function open(http: HttpServer, head = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'): Socket {
  const { hostname, port } = new URL(http.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  socket.write(head);
  return socket;
}

test('a slow reader gets the whole of its answer although the server goes down', async () => {
  let isEnded = false;
  const http = await serve((response) => {
    response.writeHead(200, { 'content-length': BIG.length });
    response.end(BIG);
    isEnded = true;
  });
  const idle = open(http, '').resume();
  const closed = new Promise((resolve) => idle.once('close', resolve));
  const socket = open(http).pause();
  await until(() => isEnded);
  http.closeIdle();
  const limit = new AbortController();
  const finished = http.finish(limit.signal);
  assert.equal(await Promise.race([finished, sleep(100, 'waits')]), 'waits');
  let bytes = 0;
  socket.on('data', (data) => (bytes += data.length));
  socket.resume();
  await finished;
  await closed;
  await until(() => bytes > BIG.length);
  await http.close();
});

test('a server that goes down does not wait for a reader longer than its limit', async () => {
  let isEnded = false;
  const http = await serve((response) => {
    response.end(BIG);
    isEnded = true;
  });
  const socket = open(http).pause();
  await until(() => isEnded);
  await http.finish(AbortSignal.timeout(50));
  await http.close();
  socket.destroy();
});

test('a client that reads nothing for the stall time is cut off, one that waits is not', async () => {
  const left: string[] = [];
  const http = await serve((response) => {
    response.once('close', () => left.push(response.writableFinished ? 'answered' : 'cut'));
    if (left.length === 0) response.end(BIG);
    else setTimeout(() => response.end('late'), 500);
  }, 100);
  const socket = open(http).pause();
  await until(() => left.length === 1);
  assert.deepEqual(left, ['cut']);
  assert.equal(await (await fetch(http.url)).text(), 'late');
  assert.deepEqual(left, ['cut', 'answered']);
  socket.destroy();
  await http.close();
});

test('a client that was behind with one answer may wait long for the next one on its connection', async (t) => {
  const stallMs = 400;
  const answers: ServerResponse[] = [];
  const http = await serve((response) => void answers.push(response), stallMs);
  t.after(() => http.close());
  const get = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n';
  const socket = open(http, get + get).pause();
  let isClosed = false;
  socket.once('close', () => (isClosed = true));
  await until(() => answers.length === 2);
  const [first, second] = answers;
  assert.ok(first !== undefined && second !== undefined);
  first.end(BIG);
  await until(() => first.socket?.timeout === stallMs);
  socket.resume();
  await until(() => first.writableFinished);
  await sleep(stallMs * 2);
  assert.equal(isClosed, false);
  let rest = '';
  socket.on('data', (data) => (rest = (rest + data.toString('latin1')).slice(-10)));
  second.end('the second');
  await until(() => rest.endsWith('the second'));
});

test('what Node would refuse by itself gets the envelope, and garbage does not hold its connection', async () => {
  const http = await serve((response) => response.end('fine'));
  const ask = async (head: string): Promise<string> => {
    const socket = open(http, head);
    let answer = '';
    socket.on('data', (data) => (answer += data.toString()));
    await until(() => answer.includes('\r\n\r\n') && !answer.endsWith('\r\n\r\n'));
    socket.destroy();
    return answer;
  };
  assert.match(await ask('GET / HTTP/1.1\r\n\r\n'), /^HTTP\/1.1 200 /);
  const refused = await ask('GET / HTTP/1.1\r\nhost: x\r\nexpect: tea\r\n\r\n');
  assert.match(refused, /^HTTP\/1.1 417 [^]*"code":"expectation_failed"/);
  const { hostname, port } = new URL(http.url);
  const deaf = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  deaf.on('error', () => {});
  const closed = new Promise((resolve) => deaf.once('close', resolve));
  deaf.write('nonsense\r\n\r\n');
  deaf.resume();
  const pings = setInterval(() => deaf.write('x'), 50);
  await closed;
  clearInterval(pings);
  await http.close();
});
