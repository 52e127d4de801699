import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PendingRequests } from './pending-requests.ts';
import type { BusMessage } from './port.ts';

const ANSWER: BusMessage = {
  subject: 's',
  data: new Uint8Array(0),
  headers: undefined,
  respond: () => false,
};

test('late answers are told to whoever wants them; of too many the oldest are forgotten and counted', async () => {
  const requests = new PendingRequests();
  const tokens: string[] = [];
  for (let i = 0; i < 1_026; i++) {
    const stop = new AbortController();
    const options = { timeoutMs: 10_000, signal: stop.signal, onLate: () => {} };
    const running = requests.start('s', options, (token) => void tokens.push(token));
    stop.abort();
    await assert.rejects(running, { code: 'BUS_ABORTED' });
  }
  assert.equal(requests.forgotten, 2);
  assert.equal(requests.resolve(tokens[1]!, ANSWER), undefined);
  assert.equal(typeof requests.resolve(tokens[2]!, ANSWER), 'function');
});
