import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { hashBlocks, hashSeed } from '@busbar/blocks';
import { z } from 'zod';
import { ScriptedStack, until } from './scripted-stack.testing.ts';

const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string(), parent: z.string().optional() })),
});

async function listed(stack: ScriptedStack): Promise<[string, string | undefined][]> {
  const body: unknown = await (await fetch(`${stack.url}/v1/models`)).json();
  return modelsSchema.parse(body).data.map(({ id, parent }) => [id, parent]);
}

test('adapters of ready workers are models with a parent; requests for them go to it with the adapter', async () => {
  const stack = await ScriptedStack.start();
  try {
    const worker = await stack.addWorker('decode-2', 'm', undefined, { loras: ['sql', 'm'] });
    await stack.addWorker('prefill-1', 'm', undefined, { role: 'prefill', loras: ['elsewhere'] });
    await sleep(20);
    assert.deepEqual(await listed(stack), [
      ['m', undefined],
      ['sql', 'm'],
    ]);
    stack.route = () => stack.place('decode-2');
    const response = await stack.chat({ model: 'sql' });
    assert.equal(response.status, 200);
    assert.equal(z.object({ model: z.string() }).parse(await response.json()).model, 'sql');
    const { request, hashes } = stack.routed.at(-1)!;
    assert.deepEqual([request.model, request.lora], ['m', 'sql']);
    const { header, tokens } = worker.works.at(-1)!;
    assert.deepEqual([header.model, header.lora], ['m', 'sql']);
    assert.deepEqual(hashes, hashBlocks(tokens, 4, hashSeed({ lora: 'sql' })));
    await stack.chat({ model: 'sql', cache_salt: 's' });
    const salted = hashBlocks(tokens, 4, hashSeed({ lora: 'sql', cacheSalt: 's' }));
    assert.deepEqual(stack.routed.at(-1)?.hashes, salted);
    await until(() => stack.ended('completed') === 2);

    assert.equal((await stack.chat({ model: 'm' })).status, 200);
    assert.equal(stack.routed.at(-1)?.request.lora, undefined, 'a model wins over an adapter');
    assert.equal((await stack.chat({ model: 'elsewhere' })).status, 404);
    assert.equal((await fetch(`${stack.url}/v1/models/sql`)).status, 200);

    await stack.putInstance('decode', 'decode-2', 'm', { loras: ['sql'] }, 'draining');
    await sleep(20);
    assert.equal((await stack.chat({ model: 'sql' })).status, 503, 'known, but nobody is ready');
    assert.equal((await stack.chat({ model: 'm' })).status, 200);
    await stack.putInstance('decode', 'decode-2', 'm', { loras: [] });
    await sleep(20);
    assert.equal((await stack.chat({ model: 'sql' })).status, 404, 'unloaded');
    assert.deepEqual(await listed(stack), [['m', undefined]]);
  } finally {
    await stack.stop();
  }
});
