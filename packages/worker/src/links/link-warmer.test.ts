import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { createRng } from '@busbar/base';
import { infoOf } from '../facts.testing.ts';
import { LinkWarmer } from './link-warmer.ts';
import type { Peer } from './peer-watch.ts';
import type { WarmUpLink } from './warm-up.ts';

function peerOf(id: string): Peer {
  return { id, epoch: 1, info: infoOf('prefill') };
}

interface Try {
  peer: Peer;
  signal: AbortSignal;
  succeed: () => void;
  fail: (reason: string) => void;
}

/** A warmer whose tries the test ends, on a clock that the test moves. */
function benchOf() {
  mock.timers.enable({ apis: ['setTimeout'] });
  const tries: Try[] = [];
  const told: string[] = [];
  const warmUp: WarmUpLink = (peer, signal) =>
    new Promise((resolve, reject) => {
      tries.push({ peer, signal, succeed: resolve, fail: (reason) => reject(new Error(reason)) });
    });
  const warmer = new LinkWarmer({
    warmUp,
    rng: createRng(1),
    nowMs: () => 0,
    onProven: (id) => void told.push(`${id} is proven`),
    onFailure: (id, reason) => void told.push(`${id}: ${reason}`),
  });
  const settle = async (): Promise<void> => {
    for (let i = 0; i < 20; i++) await Promise.resolve();
  };
  const pass = async (ms: number): Promise<void> => {
    mock.timers.tick(ms);
    await settle();
  };
  const stop = (): void => {
    warmer.stop();
    mock.timers.reset();
  };
  return { warmer, tries, told, pass, settle, stop };
}

test('each link is tried until it went well once, and one at a time', async () => {
  const { warmer, tries, told, pass, settle, stop } = benchOf();
  try {
    warmer.add(peerOf('p1'));
    warmer.add(peerOf('p2'));
    await pass(1_000);
    assert.equal(tries.length, 1);
    tries[0]!.fail('it took too long');
    await settle();
    assert.equal(tries.length, 2, 'the other is tried while the first waits');
    const [first, second] = tries.map(({ peer }) => peer.id);
    tries[1]!.succeed();
    await pass(1_500);
    assert.equal(tries.length, 3);
    assert.equal(tries[2]!.peer.id, first);
    tries[2]!.succeed();
    await pass(300_000);
    assert.equal(tries.length, 3, 'what is proven is left alone');
    const proven = [`${second} is proven`, `${first} is proven`];
    assert.deepEqual(told, [`${first}: it took too long`, ...proven]);
  } finally {
    stop();
  }
});

test('of a worker that left, or that another process follows, nothing is told', async () => {
  const { warmer, tries, told, pass, settle, stop } = benchOf();
  try {
    warmer.add(peerOf('p1'));
    await pass(1_000);
    warmer.remove('p1');
    assert.equal(tries[0]!.signal.aborted, true);
    warmer.add(peerOf('p1'));
    await pass(1_000);
    tries[0]!.succeed();
    await settle();
    assert.deepEqual([told, tries.length], [[], 2]);
    tries[1]!.succeed();
    await settle();
    assert.deepEqual(told, ['p1 is proven']);
    warmer.add(peerOf('p2'));
    warmer.stop();
    await pass(10_000);
    assert.equal(tries.length, 2);
  } finally {
    stop();
  }
});
