import assert from 'node:assert/strict';
import { beforeEach, mock, suite, test } from 'node:test';
import { limit } from '@busbar/protocol';
import { LeaseGrace } from './lease-grace.ts';

suite('LeaseGrace', () => {
  const gone: string[] = [];
  beforeEach(() => {
    gone.length = 0;
    mock.timers.reset();
    mock.timers.enable({ apis: ['setTimeout'] });
  });

  test('tells once of a lease that stays away, counted from the first time', () => {
    const grace = new LeaseGrace((key) => gone.push(key));
    grace.expired('decode.a');
    mock.timers.tick(limit('leaseGraceMs') - 1);
    grace.expired('decode.a');
    assert.deepEqual(gone, []);
    mock.timers.tick(1);
    assert.deepEqual(gone, ['decode.a']);
    mock.timers.tick(limit('leaseGraceMs'));
    assert.deepEqual(gone, ['decode.a']);
  });

  test('says nothing of a lease that comes back, and counts anew when it goes again', () => {
    const grace = new LeaseGrace((key) => gone.push(key));
    grace.expired('decode.a');
    mock.timers.tick(limit('leaseGraceMs') - 1);
    grace.held('decode.a');
    grace.expired('decode.a');
    mock.timers.tick(limit('leaseGraceMs') - 1);
    assert.deepEqual(gone, []);
    grace.stop();
    mock.timers.tick(limit('leaseGraceMs'));
    assert.deepEqual(gone, []);
  });
});
