import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineDelta } from '../../port.ts';
import { request } from '../engine-harness.testing.ts';
import { findOverdueFetches, findStuck } from './engine-watch.ts';
import { oneToken, silentHost } from './run.testing.ts';
import { Run } from './run.ts';
import { renewsLease } from './transfer-params.ts';

test('a fetch has its own limit: silence of the engine does not end it, nor do tokens of others prolong it', () => {
  let nowMs = 0;
  const tokens = new Uint32Array();
  const run = (): Run => new Run(request(1, { tokens }), silentHost, () => nowMs);
  const [fetching, queued, running] = [run(), run(), run()];
  fetching.beginFetch(200);
  const all = [fetching, queued, running];
  nowMs = 100;
  assert.deepEqual(findStuck(all, nowMs, 100), [queued, running]);
  assert.deepEqual(findStuck([fetching], nowMs, 100), []);
  running.onChunk(oneToken);
  nowMs = 199;
  assert.deepEqual(findStuck(all, nowMs, 100), []);
  assert.deepEqual(findOverdueFetches(all, nowMs), []);
  nowMs = 200;
  assert.deepEqual(findOverdueFetches(all, nowMs), [fetching]);
  nowMs = 199;
  fetching.onChunk(oneToken);
  nowMs = 300;
  assert.deepEqual(findOverdueFetches(all, nowMs), [], 'its KV came');
});

test('the longest prompt that waits gives all a millisecond more for each of its tokens', () => {
  let nowMs = 0;
  const run = (tokens: number): Run =>
    new Run(request(1, { tokens: new Uint32Array(tokens) }), silentHost, () => nowMs);
  const [long, short] = [run(1_000), run(10)];
  short.onChunk(oneToken);
  const all = [long, short];
  assert.deepEqual(findStuck(all, 1_099, 100), []);
  assert.deepEqual(findStuck(all, 1_100, 100), all);
  nowMs = 1_000;
  long.onChunk(oneToken);
  assert.deepEqual(findStuck(all, 1_000, 100), [short]);
});

test('a first token that comes too late is not believed: the blocks may have held another request', () => {
  let nowMs = 0;
  const deltas: EngineDelta[] = [];
  const deliver = (_: Run, delta: EngineDelta): void => void deltas.push(delta);
  const run = new Run(request(1), { ...silentHost, deliver }, () => nowMs);
  run.beginFetch(200);
  nowMs = 200;
  run.onChunk(oneToken);
  assert.deepEqual(
    deltas.map(({ tokens, error }) => [tokens.length, error?.code]),
    [[0, 'WORKER_KV_LOST']],
  );
  assert.equal(renewsLease('nixl', '0.21.1'), false);
  assert.equal(renewsLease('nixl', '0.22.0'), true);
});
