import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMocker } from './mocker.ts';
import { profileByName } from './profiles.ts';
import { Driver, prompt, request, testConfig } from './testing.ts';

function start(changes: Parameters<typeof testConfig>[0] = {}): Driver {
  return new Driver(createMocker(testConfig(changes)));
}

function storedBlocks(driver: Driver): number {
  return driver.mocker.blocks().length / 2;
}

describe('a request that stages its KV', () => {
  it('computes one token, ends, and keeps its blocks until they are released', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 100), { maxTokens: 50, stagesKv: true }));
    driver.drain();
    assert.deepEqual(driver.finishOf(1), ['length']);
    assert.equal(driver.tokensOf(1).length, 1);
    assert.equal(storedBlocks(driver), 6);
    const { running, waiting, stagedBlocks, activeBlocks } = driver.mocker.load();
    assert.deepEqual([running, waiting, stagedBlocks, activeBlocks], [0, 0, 7, 7]);
    assert.throws(() => driver.mocker.submit(request(1, prompt(1, 20))), /unique/);
    driver.mocker.resetCache();
    assert.equal(storedBlocks(driver), 6, 'staged blocks outlive a reset');
    driver.mocker.releaseStaged(1);
    driver.mocker.releaseStaged(1);
    assert.equal(driver.mocker.load().stagedBlocks, 0);
    assert.equal(driver.mocker.load().activeBlocks, 0);
    driver.mocker.checkInvariants();
  });

  it('ends with "stop" at a stop token, and is staged all the same', () => {
    const driver = start();
    const stopTokenIds = [10, 11, 12, 20, 21];
    driver.mocker.submit(request(1, prompt(0, 100), { stopTokenIds, stagesKv: true }));
    driver.drain();
    assert.deepEqual(driver.finishOf(1), ['stop']);
    assert.equal(driver.mocker.load().stagedBlocks, 7);
  });

  it('shares its blocks with others; what two stage counts once', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 64, 1, 16), { stagesKv: true }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(0, 64, 2, 16), { stagesKv: true }));
    driver.drain();
    assert.equal(driver.cachedTokensOf(2), 64);
    assert.equal(driver.mocker.load().stagedBlocks, 6);
    driver.mocker.abort(1);
    assert.equal(driver.mocker.load().stagedBlocks, 5);
    assert.deepEqual(driver.finishOf(1), ['length'], 'it ended before');
    driver.mocker.abort(2);
    assert.equal(driver.mocker.load().stagedBlocks, 0);
    assert.equal(driver.step(), undefined);
  });

  it('stages nothing when it is aborted in its step', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 100), { stagesKv: true }));
    driver.mocker.beginStep(0);
    driver.mocker.abort(1);
    assert.equal(driver.mocker.endStep(1).deltas[0]?.finish, 'cancelled');
    assert.equal(driver.mocker.load().activeBlocks, 0);
    assert.equal(driver.mocker.load().stagedBlocks, 0);
  });

  it('makes even a lone sequence wait when its blocks are in the way, and that one goes on after', () => {
    const driver = start({ kvBlocks: 8 });
    driver.mocker.submit(request(1, prompt(0, 64), { stagesKv: true }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(1, 50), { maxTokens: 40 }));
    driver.drain();
    assert.deepEqual(driver.finishOf(2), []);
    const { running, waiting, activeBlocks } = driver.mocker.load();
    assert.deepEqual([running, waiting, activeBlocks], [0, 1, 4]);
    driver.mocker.releaseStaged(1);
    driver.drain();
    assert.deepEqual(driver.finishOf(2), ['length']);
    assert.equal(driver.tokensOf(2).length, 40);
  });
});

describe('a request that fetches its KV', () => {
  it('takes all its blocks, computes nothing until they arrived, then the last prompt token', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 100), { fetchesKv: true }));
    assert.equal(driver.mocker.load().waitingPrefillTokens, 0);
    const plan = driver.mocker.beginStep(0);
    assert.deepEqual(plan?.fetches, [{ key: 1, fromBlock: 0, blocks: 7 }]);
    assert.equal(plan?.durationMs, 0);
    driver.mocker.endStep(0);
    assert.equal(driver.step(), undefined);
    const { running, waiting, waitingPrefillTokens, activeBlocks } = driver.mocker.load();
    assert.deepEqual([running, waiting, waitingPrefillTokens, activeBlocks], [0, 1, 0, 7]);
    assert.equal(storedBlocks(driver), 0);
    driver.mocker.kvArrived(1);
    driver.mocker.kvArrived(1);
    assert.equal(storedBlocks(driver), 0, 'told with the end of a step, not before');
    const next = driver.mocker.beginStep(0);
    assert.equal(next?.batch.prefillTokens, 0);
    assert.equal(next?.batch.decodeSequences, 1);
    const output = driver.mocker.endStep(0);
    assert.equal(output.deltas[0]?.cachedTokens, 0);
    assert.equal(storedBlocks(driver), 6);
    driver.drain();
    assert.deepEqual(driver.finishOf(1), ['length']);
  });

  it('answers as a request that computes its prompt does', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 100), { seed: 7 }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(1, 100), { seed: 7, fetchesKv: true }));
    driver.step();
    driver.mocker.kvArrived(2);
    driver.drain();
    assert.deepEqual(driver.tokensOf(2), driver.tokensOf(1));
  });

  it('fetches only what the cache does not hold, but always a block', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 64), { maxTokens: 1 }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(0, 64), { fetchesKv: true }));
    driver.mocker.submit(request(3, prompt(0, 64, 3, 40), { fetchesKv: true }));
    assert.deepEqual(driver.mocker.beginStep(0)?.fetches, [
      { key: 2, fromBlock: 3, blocks: 1 },
      { key: 3, fromBlock: 4, blocks: 3 },
    ]);
    driver.mocker.endStep(0);
    driver.mocker.kvArrived(3);
    driver.mocker.kvArrived(2);
    driver.drain();
    assert.deepEqual([driver.cachedTokensOf(2), driver.cachedTokensOf(3)], [48, 64]);
  });

  it('begins only with room for the whole prompt', () => {
    const driver = start({ kvBlocks: 8 });
    driver.mocker.submit(request(1, prompt(0, 80), { stagesKv: true }));
    driver.drain();
    driver.mocker.submit(request(2, prompt(1, 64), { fetchesKv: true }));
    assert.equal(driver.mocker.beginStep(0), undefined);
    driver.mocker.releaseStaged(1);
    assert.equal(driver.mocker.beginStep(0)?.fetches.length, 1);
  });

  it('that fails ends with a retryable error and holds nothing', () => {
    const driver = start();
    driver.mocker.submit(request(1, prompt(0, 64), { fetchesKv: true }));
    driver.step();
    driver.mocker.kvFailed(1, 'the link broke');
    driver.mocker.kvFailed(1, 'again');
    driver.mocker.kvArrived(1);
    assert.equal(driver.mocker.load().activeBlocks, 0);
    driver.drain();
    const error = { code: 'WORKER_KV_LOST', message: 'the link broke', retryable: true };
    assert.deepEqual(driver.deltas, [{ key: 1, tokens: [], finish: 'error', error }]);
    assert.equal(storedBlocks(driver), 0);
  });

  it('is aborted while it waits, fetches, or has arrived', () => {
    const profile = { ...testConfig().profile, maxRunning: 2 };
    const driver = start({ profile });
    driver.mocker.submit(request(1, prompt(1, 40), { maxTokens: 200 }));
    for (const key of [2, 3])
      driver.mocker.submit(request(key, prompt(key, 40), { fetchesKv: true }));
    driver.step();
    driver.mocker.submit(request(4, prompt(4, 40), { maxTokens: 200 }));
    driver.mocker.submit(request(5, prompt(5, 40), { fetchesKv: true }));
    driver.step();
    driver.mocker.kvArrived(3);
    for (const key of [2, 3, 5]) driver.mocker.abort(key);
    driver.mocker.kvArrived(2);
    driver.mocker.checkInvariants();
    driver.step();
    for (const key of [2, 3, 5]) assert.deepEqual(driver.finishOf(key), ['cancelled']);
    assert.equal(driver.mocker.load().running, 2);
  });

  it('waits for a seat when it arrives while all are taken, its blocks told already', () => {
    const profile = { ...testConfig().profile, maxRunning: 1 };
    const driver = start({ profile });
    driver.mocker.submit(request(1, prompt(1, 40), { fetchesKv: true }));
    driver.mocker.submit(request(2, prompt(2, 40), { maxTokens: 5 }));
    driver.step();
    driver.mocker.kvArrived(1);
    const before = storedBlocks(driver);
    driver.step();
    assert.equal(storedBlocks(driver), before + 2);
    driver.drain();
    assert.deepEqual(driver.finishOf(1), ['length']);
    assert.deepEqual(driver.finishOf(2), ['length']);
  });

  it('computes its prompt itself once it was preempted', () => {
    const driver = start({ kvBlocks: 12 });
    driver.mocker.submit(request(1, prompt(1, 80), { maxTokens: 60, seed: 5 }));
    driver.mocker.submit(request(2, prompt(2, 80), { maxTokens: 60, seed: 5, fetchesKv: true }));
    driver.step();
    driver.mocker.kvArrived(2);
    let preempted = 0;
    let fetches = 0;
    for (;;) {
      const plan = driver.mocker.beginStep(0);
      if (plan === undefined) break;
      fetches += plan.fetches.length;
      const output = driver.mocker.endStep(0);
      preempted += output.preempted;
      driver.deltas.push(...output.deltas);
    }
    assert.ok(preempted > 0);
    assert.equal(fetches, 0);
    assert.deepEqual(driver.finishOf(2), ['length']);
    assert.deepEqual(driver.tokensOf(2), driver.tokensOf(1));
  });

  it('costs a step what a decoding sequence costs', () => {
    const driver = start({ profile: profileByName('dynamo-mocker')! });
    driver.mocker.submit(request(1, prompt(1, 1000), { fetchesKv: true }));
    driver.step();
    driver.mocker.kvArrived(1);
    const first = driver.mocker.beginStep(0);
    driver.mocker.endStep(0);
    const second = driver.mocker.beginStep(0);
    assert.ok(first !== undefined && second !== undefined);
    assert.ok(Math.abs(first.durationMs - second.durationMs) < 1);
  });
});
