import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkVariables } from './service-env.ts';

test('known variables pass, a misspelt one is named with the nearest', () => {
  checkVariables({ PATH: '/bin', BUSBAR_LOG_LEVEL: 'info', BUSBAR_STATE_DIR: '/x' });
  assert.throws(
    () => checkVariables({ BUSBAR_LOG_LEVLE: 'info' }),
    /BUSBAR_LOG_LEVLE is not known; did you mean BUSBAR_LOG_LEVEL\?/,
  );
  assert.throws(() => checkVariables({ BUSBAR_XYZ_QQQQQ_WWWWW: '1' }), /is not known$/);
});
