import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CliError } from '../errors.ts';
import type { UpFlags } from './flags.ts';
import { parseUpOptions } from './options.ts';

function parse(changes: Partial<UpFlags>, env: Record<string, string> = {}) {
  return parseUpOptions({ kvEvents: true, ...changes }, env, '/');
}

test('the defaults are two equal workers', () => {
  const options = parse({});
  assert.deepEqual(options.workers, [
    { kvBlocks: 926, speed: 1 },
    { kvBlocks: 926, speed: 1 },
  ]);
  assert.equal(options.isDetached, false);
  assert.equal(options.modelPath, undefined);
});

test('lists give one value to each worker', () => {
  const options = parse({ decode: '3', kvBlocks: '926,1693, 100', mockSpeed: '1,0.5,2' });
  assert.deepEqual(options.workers, [
    { kvBlocks: 926, speed: 1 },
    { kvBlocks: 1693, speed: 0.5 },
    { kvBlocks: 100, speed: 2 },
  ]);
});

test('every wrong value is a usage error that names its flag', () => {
  const wrong: [Partial<UpFlags>, RegExp][] = [
    [{ decode: '0' }, /--decode takes a whole number from 1 to 64, not "0"/],
    [{ decode: '65' }, /--decode/],
    [{ decode: '1e1' }, /--decode/],
    [{ routers: '-1' }, /--routers/],
    [{ frontends: '1.5' }, /--frontends/],
    [{ kvBlocks: '1,2,3' }, /--kv-blocks has 3 values for 2 workers/],
    [{ kvBlocks: '926,' }, /--kv-blocks takes/],
    [{ blockSize: '0' }, /--block-size/],
    [{ mockSpeed: '0' }, /--mock-speed/],
    [{ mockSpeed: 'fast' }, /--mock-speed/],
    [{ port: '0' }, /--port/],
    [{ port: '65536' }, /--port/],
    [{ host: 'a b' }, /--host/],
    [{ model: '' }, /--model/],
    [{ model: 'two\nlines' }, /--model/],
    [{ model: ' padded' }, /--model/],
    [{ model: 'x'.repeat(129) }, /--model/],
    [{ engine: 'mok' }, /--engine does not know "mok"; did you mean mock\?/],
    [{ policy: 'round_robin' }, /did you mean round-robin\?/],
    [{ profile: 'zzzzzzzzz' }, /Known: seed-8gb, dynamo-mocker, instant/],
    [{ contextTokens: '0' }, /--context-tokens/],
  ];
  for (const [changes, message] of wrong) {
    assert.throws(
      () => parse(changes),
      (error) => error instanceof CliError && error.exitCode === 2 && message.test(error.message),
      JSON.stringify(changes),
    );
  }
});

test('a context that no cache can hold says what would fit', () => {
  assert.throws(
    () => parse({ contextTokens: '20000', kvBlocks: '926,2000' }),
    /does not fit into 926 blocks of 16 tokens: at most 14,816/,
  );
  assert.equal(parse({ contextTokens: '14816' }).contextTokens, 14_816);
});

test('model names may have spaces and any letters', () => {
  assert.equal(parse({ model: '模型 x:8b' }).model, '模型 x:8b');
});

test('a model folder needs a tokenizer', () => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-model-'));
  try {
    assert.throws(() => parse({ modelPath: folder }), /has none/);
    writeFileSync(join(folder, 'tokenizer.json'), '{}');
    assert.equal(parse({ modelPath: folder }).modelPath, folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a variable of the services stands in for a flag that is not given', () => {
  const env = {
    BUSBAR_POLICY: 'random',
    BUSBAR_KV_BLOCKS: '500',
    BUSBAR_HTTP_PORT: '8123',
    BUSBAR_KV_EVENTS: 'off',
    BUSBAR_MODEL: '',
  };
  const options = parse({}, env);
  assert.equal(options.policy, 'random');
  assert.deepEqual(
    options.workers.map((worker) => worker.kvBlocks),
    [500, 500],
  );
  assert.equal(options.port, 8_123);
  assert.equal(options.kvEvents, false);
  assert.equal(options.model, 'busbar-mock');
  assert.equal(parse({ policy: 'kv' }, env).policy, 'kv');
  assert.equal(parse({ kvEvents: false }, { BUSBAR_KV_EVENTS: 'true' }).kvEvents, false);
});

test('an error names the variable when the value came from one', () => {
  assert.throws(
    () => parse({}, { BUSBAR_POLICY: 'randon' }),
    /^CliError: BUSBAR_POLICY does not know "randon"; did you mean random\?/,
  );
  assert.throws(
    () => parse({}, { BUSBAR_KV_EVENTS: 'maybe' }),
    /BUSBAR_KV_EVENTS takes true or false, not "maybe"/,
  );
});
