import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMocker } from './mocker.ts';
import { Driver, EOS, prompt, request, testConfig } from './testing.ts';
import type { StepOutput } from './types.ts';

function start(changes: Parameters<typeof testConfig>[0] = {}): Driver {
  return new Driver(createMocker(testConfig(changes)));
}

function storedBlocks(output: StepOutput | undefined): number {
  let blocks = 0;
  for (const change of output?.kv ?? []) {
    if (change.kind === 'stored') blocks += change.hashes.length / 2;
  }
  return blocks;
}

describe('the answer', () => {
  it('is the same for the same seed and other for another', () => {
    const driver = start();
    for (const key of [1, 2, 3]) {
      driver.mocker.submit(request(key, prompt(0, 20), { maxTokens: 30, seed: key === 3 ? 9 : 7 }));
    }
    driver.drain();
    assert.deepEqual(driver.tokensOf(1), driver.tokensOf(2));
    assert.notDeepEqual(driver.tokensOf(1), driver.tokensOf(3));
    assert.equal(driver.tokensOf(1).length, 30);
    assert.deepEqual(driver.finishOf(1), ['length']);
  });

  it('ends with end-of-sequence after 40 to 120 tokens', () => {
    const driver = start({ kvBlocks: 4096 });
    for (let key = 0; key < 60; key++) {
      driver.mocker.submit(request(key, prompt(key, 20), { maxTokens: 500, ignoreEos: false }));
    }
    driver.drain();
    const lengths = new Set<number>();
    for (let key = 0; key < 60; key++) {
      const tokens = driver.tokensOf(key);
      assert.deepEqual(driver.finishOf(key), ['stop']);
      assert.equal(tokens.at(-1), EOS);
      assert.ok(tokens.length >= 41 && tokens.length <= 121, `${tokens.length} tokens`);
      lengths.add(tokens.length);
    }
    assert.ok(lengths.size > 20, 'lengths differ');
  });

  it('goes on to minTokens and ends at a stop token only after it', () => {
    const driver = start();
    driver.mocker.submit(
      request(1, prompt(0, 20), { maxTokens: 500, minTokens: 200, ignoreEos: false }),
    );
    driver.mocker.submit(
      request(2, prompt(0, 20), { maxTokens: 500, minTokens: 10, stopTokenIds: [10, 21] }),
    );
    driver.drain();
    assert.equal(driver.tokensOf(1).length, 201);
    const stopped = driver.tokensOf(2);
    assert.ok(stopped.length > 10 && stopped.length < 20);
    assert.ok([10, 21].includes(stopped.at(-1)!));
  });

  it('ends where the context ends', () => {
    const driver = start({ contextTokens: 64 });
    driver.mocker.submit(request(1, prompt(0, 60), { maxTokens: 500 }));
    driver.drain();
    assert.equal(driver.tokensOf(1).length, 4);
    assert.deepEqual(driver.finishOf(1), ['length']);
  });
});

describe('the prefix cache', () => {
  it('tells of blocks in the output of the step that made them, never before', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 100)));
    assert.ok(driver.mocker.beginStep(0));
    assert.equal(driver.mocker.blocks().length, 0);
    const output = driver.mocker.endStep(1);
    assert.equal(storedBlocks(output), 6);
    assert.equal(driver.mocker.blocks().length, 12);
  });

  it('computes at least one token of a prompt that it holds whole', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 64), { maxTokens: 1 }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(0, 64), { maxTokens: 1 }));
    driver.drain();
    assert.equal(driver.cachedTokensOf(1), 0);
    assert.equal(driver.cachedTokensOf(2), 48);
  });

  it('makes full blocks of the answer reusable too, also of a prompt shorter than a block', () => {
    const driver = start();
    const first = prompt(0, 10);
    driver.mocker.submit(request(1, first, { maxTokens: 60 }));
    driver.drain();
    const turn = Uint32Array.from([...first, ...driver.tokensOf(1), 7, 8, 9]);
    driver.mocker.submit(request(2, turn));
    driver.drain();
    assert.equal(driver.cachedTokensOf(2), 64);
  });

  it('tells once of a block that two sequences make, and removes it with the last copy', () => {
    const driver = start({ kvBlocks: 20 });
    driver.mocker.submit(request(1, prompt(0, 64), { maxTokens: 1 }));
    driver.mocker.submit(request(2, prompt(0, 64), { maxTokens: 1 }));
    assert.equal(storedBlocks(driver.step()), 4);
    // 12 empty blocks remain; 13 more drop the oldest copy, the tail of the first sequence. The other copy lives.
    driver.mocker.submit(request(3, prompt(1, 13 * 16), { maxTokens: 1 }));
    const output = driver.step();
    assert.deepEqual(
      output?.kv.map((change) => change.kind),
      ['stored'],
    );
    driver.mocker.submit(request(4, prompt(2, 19 * 16), { maxTokens: 1 }));
    const removed = driver.step()?.kv.find((change) => change.kind === 'removed');
    assert.equal(removed?.kind === 'removed' ? removed.hashes.length / 2 : 0, 4 + 12);
    driver.mocker.checkInvariants();
  });

  it('forgets what was released longest ago first, and the end of a prompt before its beginning', () => {
    const driver = start({ kvBlocks: 12 });
    driver.mocker.submit(request(1, prompt(0, 64), { maxTokens: 1 }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(1, 64), { maxTokens: 1 }));
    driver.drain();
    driver.mocker.submit(request(3, prompt(2, 96), { maxTokens: 1 }));
    driver.drain();
    driver.mocker.submit(request(4, prompt(1, 64, 1, 16), { maxTokens: 1 }));
    driver.drain();
    driver.mocker.submit(request(5, prompt(0, 64, 1, 16), { maxTokens: 1 }));
    driver.drain();
    assert.equal(driver.cachedTokensOf(4), 64);
    assert.ok(driver.cachedTokensOf(5)! < 32);
  });

  it('drops what no sequence uses on reset, and says so', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 64), { maxTokens: 1 }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(1, 64), { maxTokens: 50 }));
    driver.step();
    driver.mocker.resetCache();
    const output = driver.step();
    assert.equal(output?.kv[0]?.kind, 'removed');
    assert.equal(driver.mocker.blocks().length, 8);
    driver.mocker.checkInvariants();
  });
});

describe('scheduling', () => {
  it('splits a prompt that is longer than a step', () => {
    const profile = { ...testConfig().profile, maxBatchedTokens: 100 };
    const driver = start({ profile });
    driver.mocker.submit(request(1, prompt(0, 250), { maxTokens: 1 }));
    assert.equal(driver.step()?.deltas.length, 0);
    assert.equal(driver.step()?.deltas.length, 0);
    assert.equal(driver.step()?.deltas.length, 1);
  });

  it('answers in the order of arrival and runs at most maxRunning', () => {
    const profile = { ...testConfig().profile, maxRunning: 2 };
    const driver = start({ profile });
    for (const key of [1, 2, 3, 4]) driver.mocker.submit(request(key, prompt(key, 20)));
    driver.step();
    assert.equal(driver.mocker.load().running, 2);
    assert.equal(driver.mocker.load().waiting, 2);
    driver.drain();
    assert.deepEqual([...driver.firstTokenMs.keys()], [1, 2, 3, 4]);
  });

  it('preempts the last one when blocks run out, and each still ends once with its whole answer', () => {
    const driver = start({ kvBlocks: 16 });
    let preempted = 0;
    for (const key of [1, 2, 3]) {
      driver.mocker.submit(request(key, prompt(key, 60), { maxTokens: 120, seed: 5 }));
    }
    for (let output = driver.step(); output !== undefined; output = driver.step()) {
      preempted += output.preempted;
      driver.mocker.checkInvariants();
    }
    assert.ok(preempted > 0);
    const alone = start({ kvBlocks: 16 });
    alone.mocker.submit(request(1, prompt(1, 60), { maxTokens: 120, seed: 5 }));
    alone.drain();
    for (const key of [1, 2, 3]) {
      assert.deepEqual(driver.finishOf(key), ['length']);
      assert.deepEqual(driver.tokensOf(key), alone.tokensOf(1));
    }
  });

  it('refuses at once what no empty pool could hold', () => {
    const driver = start({ kvBlocks: 4 });
    driver.mocker.submit(request(1, prompt(0, 64)));
    driver.mocker.submit(request(2, prompt(0, 63), { maxTokens: 100 }));
    driver.drain(10);
    assert.deepEqual(driver.finishOf(1), ['error']);
    assert.equal(driver.deltas.find((delta) => delta.key === 1)?.error?.code, 'WORKER_TOO_LONG');
    assert.deepEqual(driver.finishOf(2), ['length']);
  });
});

describe('abort', () => {
  it('frees a waiting request at once and a computed one when its step ends', () => {
    const profile = { ...testConfig().profile, maxRunning: 1 };
    const driver = start({ profile });
    driver.mocker.submit(request(1, prompt(1, 64), { maxTokens: 100 }));
    driver.mocker.submit(request(2, prompt(2, 64), { maxTokens: 100 }));
    driver.step();
    driver.mocker.beginStep(0);
    driver.mocker.abort(1);
    driver.mocker.abort(2);
    assert.equal(driver.mocker.load().waiting, 0);
    assert.ok(driver.mocker.load().activeBlocks > 0);
    const ended = driver.mocker.endStep(1).deltas;
    assert.deepEqual(ended.map((delta) => `${delta.key} ${delta.finish}`).toSorted(), [
      '1 cancelled',
      '2 cancelled',
    ]);
    assert.equal(driver.mocker.load().activeBlocks, 0);
    assert.equal(driver.step(), undefined);
    driver.mocker.abort(1);
    driver.mocker.abort(77);
    assert.equal(driver.step(), undefined);
  });
});
