import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppError } from '@busbar/base';
import { createRegistry } from '@busbar/telemetry';
import { z } from 'zod';
import { adminAction } from './admin-action.ts';
import { type AdminServer, startAdminServer } from './admin-server.ts';
import { ServiceError } from './errors.ts';
import type { Check } from './port.ts';
import { summarize } from './readiness.ts';

let more = (): Promise<string> => Promise.resolve('');
const WHO = { role: 'router', id: 'router-1', state: 'ready' } as const;

async function withServer(
  checks: Check[],
  use: (server: AdminServer) => Promise<void>,
  port = 0,
): Promise<void> {
  const server = await startAdminServer({
    host: '127.0.0.1',
    port,
    registry: createRegistry({ role: 'router', id: 'router-1' }),
    readiness: () => summarize(WHO, checks),
    routes: () => ({
      '/workers': () => [{ workerId: 'w1' }],
      '/broken': () => {
        throw new Error('no');
      },
    }),
    actions: () => ({
      '/double': adminAction(z.strictObject({ value: z.int() }), ({ value }) =>
        Promise.resolve({ value: value * 2 }),
      ),
      '/refused': adminAction(z.object({}), () =>
        Promise.reject(new AppError('X_NO', 'the engine says no')),
      ),
    }),
    metricsText: () => more(),
  });
  try {
    await use(server);
  } finally {
    await server.close();
  }
}

const get = async (url: string, method = 'GET'): Promise<{ status: number; body: string }> => {
  const response = await fetch(url, { method });
  return { status: response.status, body: await response.text() };
};

test('ready, degraded and unready differ in status and say why', async () => {
  const ok: Check = { name: 'a', ok: true, detail: 'fine' };
  const degraded: Check = { name: 'b', ok: true, isDegraded: true, detail: 'no kv events from w1' };
  const bad: Check = { name: 'c', ok: false, detail: 'no lease' };
  for (const [checks, status, word] of [
    [[ok], 200, 'ready'],
    [[ok, degraded], 200, 'degraded'],
    [[ok, degraded, bad], 503, 'unready'],
  ] as const) {
    await withServer([...checks], async ({ url }) => {
      for (const path of ['/ready', '/health']) {
        const answer = await get(url + path);
        assert.equal(answer.status, status);
        assert.deepEqual(JSON.parse(answer.body), { status: word, ...WHO, checks });
      }
      assert.equal((await get(`${url}/live`)).status, 200);
    });
  }
});

test('metrics, own routes, unknown paths, other methods and a route that throws', async () => {
  await withServer([], async ({ url }) => {
    assert.match((await get(`${url}/metrics`)).body, /process_cpu_seconds_total/);
    assert.deepEqual(JSON.parse((await get(`${url}/workers?x=1`)).body), [{ workerId: 'w1' }]);
    const missing = await get(`${url}/toString`);
    assert.equal(missing.status, 404);
    assert.match(missing.body, /\/workers/);
    assert.equal((await get(`${url}/ready`, 'POST')).status, 405);
    assert.equal((await get(`${url}/broken`)).status, 500);
    assert.equal((await get(`${url}/live`)).status, 200);
  });
});

test('a port in use is a sentence', async () => {
  await withServer([], async ({ url }) => {
    const port = Number(new URL(url).port);
    await assert.rejects(
      withServer([], () => Promise.resolve(), port),
      (error: unknown) =>
        error instanceof ServiceError &&
        error.code === 'SERVICE_ADMIN_PORT' &&
        error.message.includes(`${port} on 127.0.0.1 is in use by another process`),
    );
  });
});

test('an address of another machine is a sentence with the variable of the address', async () => {
  await assert.rejects(
    startAdminServer({
      host: '192.0.2.1',
      port: 0,
      registry: createRegistry({ role: 'router', id: 'router-1' }),
      readiness: () => summarize(WHO, []),
      routes: () => ({}),
    }),
    /192\.0\.2\.1 is no address of this machine; choose another with BUSBAR_ADMIN_HOST/,
  );
});

test('an action takes JSON of its shape and nothing else', async () => {
  await withServer([], async ({ url }) => {
    const post = async (path: string, body: string, type = 'application/json') => {
      const init = { method: 'POST', headers: { 'content-type': type }, body };
      const response = await fetch(url + path, init);
      return { status: response.status, body: await response.text() };
    };
    assert.deepEqual(await post('/double', '{"value":21}'), {
      status: 200,
      body: '{"value":42}\n',
    });
    assert.equal((await post('/double', '{"value":21}', 'text/plain')).status, 415);
    assert.equal((await post('/double', '{"value":')).status, 400);
    assert.deepEqual(JSON.parse((await post('/double', '{"value":"x"}')).body), {
      status: 'error',
      message: 'value: Invalid input: expected number, received string',
    });
    const other = await post('/double', '{"value":1,"other":2}');
    assert.equal(other.status, 400);
    assert.deepEqual(JSON.parse(other.body), {
      status: 'error',
      message: 'Unrecognized key: "other"',
    });
    assert.equal((await post('/double', `{"value":1${' '.repeat(70_000)}}`)).status, 413);
    const refused = await post('/refused', '');
    assert.equal(refused.status, 409);
    assert.deepEqual(JSON.parse(refused.body), {
      status: 'error',
      code: 'X_NO',
      message: 'the engine says no',
    });
    const got = await fetch(`${url}/double`);
    assert.deepEqual([got.status, got.headers.get('allow')], [405, 'POST']);
    const nowhere = await post('/nowhere', '{}');
    assert.equal(nowhere.status, 404);
    assert.match(nowhere.body, /\/metrics, \/workers, \/broken, POST \/double, POST \/refused/);
  });
});

test('more metrics follow those of the process, and the page stands without them', async () => {
  await withServer([], async ({ url }) => {
    more = () => Promise.resolve('engine_things 1\n');
    assert.match((await get(`${url}/metrics`)).body, /process_cpu[^]*\nengine_things 1\n$/);
    more = () => Promise.reject(new Error('engine is away'));
    const page = await get(`${url}/metrics`);
    assert.equal(page.status, 200);
    assert.match(page.body, /process_cpu/);
    more = () => Promise.resolve('');
  });
});
