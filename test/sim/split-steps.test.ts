import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { liveSteps, type Plan, simulatedSteps } from './split-steps.ts';

/** Each plan with the work that both frontends must send because of it. */
const PLANS: readonly [name: string, plan: Partial<Plan>, works: string[]][] = [
  ['all goes well', {}, ['prefill-1 stage', 'decode-1 fetch']],
  ['the prefill worker refuses', { prefill: ['refuse'] }, ['prefill-1 stage', 'decode-1 whole']],
  ['the prefill fails', { prefill: ['error'] }, ['prefill-1 stage', 'decode-1 whole']],
  ['the prefill worker dies', { prefill: ['die'] }, ['prefill-1 stage', 'decode-1 whole']],
  [
    'the prefill fails and nobody else may do it',
    { prefill: ['error'], onFailure: 'fail' },
    ['prefill-1 stage'],
  ],
  [
    'the KV is lost on its way',
    { decode: ['kv-lost'] },
    ['prefill-1 stage', 'decode-1 fetch', 'decode-1 whole'],
  ],
  [
    'the KV is lost and nobody else may compute it',
    { decode: ['kv-lost'], onFailure: 'fail' },
    ['prefill-1 stage', 'decode-1 fetch'],
  ],
  [
    'the decode worker refuses',
    { decode: ['refuse'] },
    ['prefill-1 stage', 'decode-1 fetch', 'decode-2 fetch'],
  ],
  [
    'the decode worker dies while it fetches',
    { decode: ['die'] },
    ['prefill-1 stage', 'decode-1 fetch', 'prefill-1 stage', 'decode-2 fetch'],
  ],
  [
    'a refusal, then a loss on the second way',
    { decode: ['refuse', 'kv-lost'] },
    ['prefill-1 stage', 'decode-1 fetch', 'decode-2 fetch', 'decode-2 whole'],
  ],
  [
    'every decode worker refuses',
    { decode: ['refuse', 'refuse'] },
    ['prefill-1 stage', 'decode-1 fetch', 'decode-2 fetch'],
  ],
];

describe('the simulated frontend takes the steps of the live one when', () => {
  for (const [name, changes, works] of PLANS) {
    it(name, async () => {
      const plan: Plan = { prefill: [], decode: [], onFailure: 'prefill-locally', ...changes };
      const live = await liveSteps(plan);
      assert.deepEqual(live.works, works);
      assert.deepEqual(simulatedSteps(plan), live);
    });
  }
});
