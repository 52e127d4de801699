import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { Phases } from '../terminal/phases.ts';
import { fakeContext } from '../testing.ts';
import { StartProgress } from './start-progress.ts';

test('each phase of a long start is one line, and its seconds are none', async () => {
  let detail = 'starting';
  const server = createServer((_, response) => {
    const checks = [{ name: 'started', ok: false, detail }];
    response.end(JSON.stringify({ status: 'unready', checks }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const base = { protocol: 1, epoch: 1, pid: 1, host: 'h', startedAt: '' } as const;
  const adminUrl = `http://127.0.0.1:${address.port}`;
  const starting = [{ ...base, role: 'decode', id: 'd', state: 'starting', adminUrl }] as const;
  let nowMs = 0;
  const { context, out } = fakeContext();
  const progress = new StartProgress(new Phases(context.terminal, () => nowMs));
  const said = async (text: string): Promise<boolean> => {
    detail = text;
    nowMs += 1_000;
    return progress.ask(starting);
  };
  try {
    assert.equal(await said('starting'), true);
    assert.equal(progress.describe('d'), 'd');
    await said('vllm health: waiting (1 s)');
    await said('vllm health: waiting (2 s)');
    assert.equal(progress.describe('d'), 'd (vllm health: waiting (2 s))');
    assert.equal(await progress.ask(starting), false, 'not again at once');
    await said('vllm loading: Model loading took 1 GB (3.5 s)');
    assert.deepEqual(
      out()
        .trimEnd()
        .split('\n')
        .map((line) => line.trim()),
      ['2.0 s  · d: vllm health: waiting', '4.0 s  · d: vllm loading: Model loading took 1 GB'],
    );
  } finally {
    server.close();
  }
});
