import assert from 'node:assert/strict';
import { test } from 'node:test';
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

function untilListed(stack: ScriptedStack, models: number): Promise<void> {
  return until(async () => (await listed(stack)).length === models);
}

test('adapters of ready workers are models with a parent; requests for them go to it with the adapter', async () => {
  const stack = await ScriptedStack.start();
  try {
    const worker = await stack.addWorker('decode-2', 'm', undefined, { loras: ['sql', 'm'] });
    await stack.addWorker('prefill-1', 'm', undefined, { role: 'prefill', loras: ['elsewhere'] });
    await untilListed(stack, 2);
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
    // Known, but nobody is ready.
    await stack.chatUntil(503, { model: 'sql' });
    assert.equal((await stack.chat({ model: 'm' })).status, 200);
    await stack.putInstance('decode', 'decode-2', 'm', { loras: [] });
    await stack.chatUntil(404, { model: 'sql' });
    assert.deepEqual(await listed(stack), [['m', undefined]]);
  } finally {
    await stack.stop();
  }
});

const problemSchema = z.object({
  error: z.object({ code: z.string(), message: z.string(), param: z.string().nullable() }),
});

async function problem(
  stack: ScriptedStack,
): Promise<[status: number, code: string, message: string]> {
  const response = await stack.chat({ model: 'sql' });
  const { error } = problemSchema.parse(await response.json());
  assert.equal(error.param, response.status === 404 ? 'model' : null);
  return [response.status, error.code, error.message];
}

test('an adapter that the router has not heard of yet is asked for again; then it is 503, and 404 once nobody has it', async () => {
  const stack = await ScriptedStack.start();
  const unheard = {
    kind: 'reject',
    code: 'ROUTER_NO_WORKERS',
    message: 'no worker is known to have the adapter sql',
  } as const;
  try {
    await stack.addWorker('decode-2', 'm', undefined, { loras: ['sql'] });
    await untilListed(stack, 2);
    let asked = 0;
    stack.route = () => (++asked <= 2 ? unheard : stack.place('decode-2'));
    assert.equal((await stack.chat({ model: 'sql' })).status, 200);
    assert.equal(asked, 3);

    stack.route = () => unheard;
    const [status, code, message] = await problem(stack);
    assert.deepEqual([status, code], [503, 'model_unavailable']);
    assert.match(message, /"sql" cannot answer now: no worker is known to have the adapter/);

    // The last worker with it gives it up while the request is on its way.
    let isGivenUp = false;
    stack.route = () => {
      if (!isGivenUp) void stack.putInstance('decode', 'decode-2', 'm', { loras: [] });
      isGivenUp = true;
      return unheard;
    };
    const gone = await problem(stack);
    assert.deepEqual(gone, [404, 'model_not_found', 'The model "sql" does not exist.']);
  } finally {
    await stack.stop();
  }
});

test('an adapter that is not at the engine after all is served by another worker, or is 404', async () => {
  const stack = await ScriptedStack.start();
  try {
    const workers = [
      await stack.addWorker('decode-2', 'm', undefined, { loras: ['sql'] }),
      await stack.addWorker('decode-3', 'm', undefined, { loras: ['sql'] }),
    ];
    await untilListed(stack, 2);
    stack.route = ({ excluded = [] }) => {
      const next = workers.find(({ id }) => !excluded.includes(id));
      if (next !== undefined) return stack.place(next.id);
      return { kind: 'reject', code: 'ROUTER_DEADLINE', message: 'no worker became free in time' };
    };
    const [first, second] = workers;
    const error = { code: 'WORKER_NO_MODEL', message: 'no sql', retryable: true };
    first!.script = (worker, { streamId }) => worker.emit(streamId, '', 'error', { error });
    assert.equal((await stack.chat({ model: 'sql' })).status, 200);
    assert.deepEqual(stack.routed.at(-1)?.request.excluded, ['decode-2']);
    second!.script = first!.script;
    assert.deepEqual((await problem(stack)).slice(0, 2), [404, 'model_not_found']);
  } finally {
    await stack.stop();
  }
});
