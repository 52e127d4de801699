import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { answerOf, ScriptedStack, until } from './scripted-stack.testing.ts';

test('a body that would steer KV is 400 before anyone is asked, and nothing connects to its address', async () => {
  const stack = await ScriptedStack.start();
  let connections = 0;
  const canary = createServer(() => connections++).listen(0, '127.0.0.1');
  try {
    await until(() => canary.listening);
    const address = canary.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const params = {
      do_remote_prefill: true,
      remote_host: '127.0.0.1',
      remote_port: port,
      remote_block_ids: [0, 1],
      tp_size: 1_000_000_000,
    };
    for (const fields of [
      { kv_transfer_params: params },
      { KV_TRANSFER_PARAMS: params },
      { extra_body: { kv_transfer_params: params } },
      { vllm_xargs: { kv_transfer_params: params } },
      { nvext: { kv_transfer_params: params } },
      params,
    ]) {
      for (const path of ['/v1/chat/completions', '/v1/completions']) {
        const base = { model: 'm', prompt: 'x', messages: [{ role: 'user', content: 'x' }] };
        const response = await stack.post({ ...base, ...fields }, { path });
        assert.equal(response.status, 400);
        const { error } = await answerOf(response);
        assert.match(error.param ?? '', /kv_transfer_params|do_remote_prefill/i);
      }
    }
    assert.equal(stack.routed.length + stack.workers[0]!.asked, 0);
    assert.equal(connections, 0);
  } finally {
    canary.close();
    await stack.stop();
  }
});

test('headers by which other servers are steered change nothing; a trace goes on only when it is one', async () => {
  const stack = await ScriptedStack.start();
  try {
    const worker = stack.workers[0]!;
    await stack.chat();
    const trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const headers = {
      'x-data-parallel-rank': '7',
      'x-prefiller-host-port': '169.254.169.254:80',
      'x-disaggregated': 'true',
      'x-kv-transfer-params': '{"do_remote_prefill":true}',
      'x-worker-instance-id': 'decode-9',
      'x-request-id': 'mine',
    };
    await stack.chat({}, { headers });
    await stack.chat({}, { headers: { ...headers, traceparent: 'x'.repeat(10_000) } });
    await stack.chat({}, { headers: { traceparent: trace } });
    const plain = worker.works.map(({ header }) => {
      const { streamId, decisionId, ...rest } = header;
      assert.ok(streamId > 0 && decisionId !== '');
      return rest;
    });
    assert.equal(plain.length, 4);
    assert.deepEqual(plain[1], plain[0]);
    assert.deepEqual(plain[2], plain[0]);
    assert.deepEqual(plain[3], { ...plain[0], traceparent: trace });
    const [asked, , again] = stack.routed.map(({ request }) => request);
    assert.deepEqual({ ...again, ask: 1 }, asked);
  } finally {
    await stack.stop();
  }
});
