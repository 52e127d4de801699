import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';
import { CliError } from '../errors.ts';
import type { UpFlags } from './flags.ts';
import { parseUpOptions } from './options.ts';

function parse(changes: Partial<UpFlags>, env: Record<string, string> = {}) {
  return parseUpOptions({ kvEvents: true, ...changes }, env, '/');
}

test('the defaults are two equal workers', () => {
  const options = parse({});
  const worker = { engine: 'mock', kvBlocks: 926, speed: 1, profile: 'seed-8gb' };
  assert.deepEqual(options.decode, [worker, worker]);
  assert.deepEqual(options.prefill, []);
  assert.deepEqual(options.disaggregation, {
    mode: 'auto',
    thresholdTokens: undefined,
    isStrict: false,
  });
  assert.equal(options.scheduling, 'batch');
  assert.equal(options.isDetached, false);
  assert.equal(options.modelPath, undefined);
});

test('the scheduling policy comes from its variable alone', () => {
  assert.equal(parse({}, { BUSBAR_SCHEDULING: 'normal' }).scheduling, 'normal');
  assert.equal(parse({}, { BUSBAR_SCHEDULING: '' }).scheduling, 'batch');
  assert.throws(
    () => parse({}, { BUSBAR_SCHEDULING: 'idle' }),
    /BUSBAR_SCHEDULING does not know "idle"/,
  );
});

test('lists give one value to each worker', () => {
  const options = parse({ decode: '3', kvBlocks: '926,1693, 100', mockSpeed: '1,0.5,2' });
  assert.deepEqual(
    options.decode.map((worker) => worker.engine === 'mock' && [worker.kvBlocks, worker.speed]),
    [
      [926, 1],
      [1693, 0.5],
      [100, 2],
    ],
  );
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
    [{ profile: 'zzzzzzzzz' }, /Known: seed-8gb, dynamo-mocker, qwen3-32b-a100, instant/],
    [{ contextTokens: '0' }, /--context-tokens/],
    [{ prefill: '65' }, /--prefill takes a whole number from 0 to 64/],
    [{ prefill: '1', decode: '0' }, /serves nobody alone; --decode takes at least 1/],
    [{ prefillMockSpeed: '2' }, /--prefill-mock-speed is for prefill workers: add --prefill/],
    [{ prefill: '1', prefillKvBlocks: '1,2' }, /--prefill-kv-blocks has 2 values for 1 workers/],
    [
      { disaggregation: 'allways' },
      /--disaggregation does not know "allways"; did you mean always\?/,
    ],
    [
      { disaggregation: 'threshold', disaggregationThreshold: '-1' },
      /--disaggregation-threshold takes/,
    ],
    [{ disaggregationThreshold: '5' }, /only read with --disaggregation threshold/],
    [{ disaggregation: 'never', disaggregationStrict: true }, /never splits nothing/],
    [{ disaggregation: 'always', disaggregationStrict: true }, /every request would be refused/],
    [{ kvBytesPerToken: '0' }, /--kv-bytes-per-token/],
    [{ vllmArgs: '--x' }, /--vllm-args is for engine vllm, and this stack runs mock/],
    [{ engine: 'vllm' }, /--engine vllm needs --model-path/],
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

test('unlike pools: what prefill workers are not given is as the first decode worker', () => {
  const { prefill } = parse({
    prefill: '2',
    kvBlocks: '500,600',
    prefillMockSpeed: '4,8',
    prefillProfile: 'instant',
    kvBytesPerToken: '114688',
  });
  assert.deepEqual(prefill, [
    { engine: 'mock', kvBlocks: 500, speed: 4, profile: 'instant' },
    { engine: 'mock', kvBlocks: 500, speed: 8, profile: 'instant' },
  ]);
});

suite('engine vllm', () => {
  const modelPath = mkdtempSync(join(tmpdir(), 'busbar-model-'));
  writeFileSync(join(modelPath, 'tokenizer.json'), '{}');
  after(() => rmSync(modelPath, { recursive: true }));
  const vllm = { engine: 'vllm', modelPath };

  test('is named after its folder, takes its own block size, and nixl as soon as it is split', () => {
    const whole = parse(vllm);
    assert.equal(whole.model, modelPath.split('/').at(-1));
    assert.equal(whole.blockSize, undefined);
    assert.equal(whole.vllm?.kvConnector, 'none');
    assert.equal(parse({ ...vllm, prefill: '1' }).vllm?.kvConnector, 'nixl');
    assert.equal(parse({ ...vllm, model: 'q' }).model, 'q');
  });

  test('URLs go to decode workers first, one each', () => {
    const vllmUrl = 'http://a:1/, http://b:2,https://c';
    const { decode, prefill } = parse({ ...vllm, vllmUrl, prefill: '1' });
    assert.deepEqual(
      [...decode, ...prefill].map((worker) => worker.engine === 'vllm' && worker.url),
      ['http://a:1', 'http://b:2', 'https://c'],
    );
  });

  test('a name on the hub, and engines that run and say what they serve', () => {
    const hub = parse({ engine: 'vllm', modelPath: 'Qwen/Qwen3-0.6B' });
    assert.deepEqual([hub.modelPath, hub.model], ['Qwen/Qwen3-0.6B', 'Qwen3-0.6B']);
    const attached = parse({ engine: 'vllm', decode: '1', vllmUrl: 'http://a:1' });
    assert.deepEqual([attached.modelPath, attached.model], [undefined, undefined]);
    assert.equal(attached.vllm?.isStarted, false);
  });

  test('what does not fit together is a sentence', () => {
    const wrong: [Partial<UpFlags>, RegExp][] = [
      [{ mockSpeed: '2' }, /--mock-speed is for engine mock, and this stack runs vllm/],
      [{ kvBlocks: '2' }, /vLLM takes --vllm-args "--num-gpu-blocks-override N"/],
      [{ vllmUrl: 'http://a:1' }, /has 1 URLs for 2 workers/],
      [{ vllmUrl: 'http://a:1,http://a:1/' }, /names one vLLM twice/],
      [{ vllmUrl: 'a:1,b:2' }, /takes URLs such as/],
      [{ vllmUrl: 'http://a,http://b', vllmCommand: 'v' }, /give one of them/],
      [{ vllmGpus: '0' }, /--vllm-gpus has 1 values for 2 workers/],
      [{ vllmGpus: '0,a' }, /takes numbers of GPUs/],
      [{ kvConnector: 'nixxl' }, /did you mean nixl\?/],
      [{ kvConnector: 'none', prefill: '1' }, /no KV can leave a prefill worker/],
      [{ vllmArgs: 'a\nb' }, /takes one line/],
    ];
    for (const [changes, message] of wrong) {
      assert.throws(() => parse({ ...vllm, ...changes }), message, JSON.stringify(changes));
    }
    assert.throws(
      () => parse(vllm, { BUSBAR_PROFILE: 'instant' }),
      /BUSBAR_PROFILE is for engine mock/,
    );
  });
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
    options.decode.map((worker) => worker.engine === 'mock' && worker.kvBlocks),
    [500, 500],
  );
  assert.equal(options.port, 8_123);
  assert.equal(options.kvEvents, false);
  assert.equal(options.model, 'busbar-mock');
  assert.equal(parse({ policy: 'kv' }, env).policy, 'kv');
  assert.equal(parse({ kvEvents: false }, { BUSBAR_KV_EVENTS: 'true' }).kvEvents, false);
});

test('a threshold has a default, and counts in its mode only', () => {
  const of = (changes: Partial<UpFlags>) => parse(changes).disaggregation.thresholdTokens;
  assert.equal(of({ disaggregation: 'threshold' }), 1_024);
  assert.equal(of({ disaggregation: 'threshold', disaggregationThreshold: '0' }), 0);
  assert.equal(of({}), undefined);
});

test('one port is not for several workers', () => {
  const env = { BUSBAR_TRANSFER_PORT: '7000' };
  assert.throws(() => parse({}, env), /BUSBAR_TRANSFER_PORT is one port, and 2 workers/);
  assert.equal(parse({ decode: '1' }, env).decode.length, 1);
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
