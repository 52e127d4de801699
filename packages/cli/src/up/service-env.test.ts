import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkVariables } from './service-env.ts';

test('known variables pass, a misspelt one is named with the nearest', () => {
  checkVariables({ PATH: '/bin', BUSBAR_LOG_LEVEL: 'info', BUSBAR_STATE_DIR: '/x' });
  assert.throws(
    () => checkVariables({ BUSBAR_LOG_LEVLE: 'info' }),
    /BUSBAR_LOG_LEVLE is not known; did you mean BUSBAR_LOG_LEVEL\?/,
  );
  for (const name of ['BUSBAR_XYZ_QQQQQ_WWWWW', 'BUSBAR_FOO'])
    assert.throws(() => checkVariables({ [name]: '1' }), /is not known$/);
  assert.throws(
    () => checkVariables({ BUSBAR_PORT: '19000' }),
    /BUSBAR_PORT is not known; did you mean BUSBAR_HTTP_PORT, .* or .*\?$/,
  );
});
