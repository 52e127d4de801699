import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type ChatRequest,
  type CompletionRequest,
  type Problem,
  parseChatRequest,
  parseCompletionRequest,
  parseJsonObject,
} from './index.ts';

const messages = [{ role: 'user', content: 'hi' }];

function chat(fields: Record<string, unknown>): ChatRequest {
  const checked = parseChatRequest({ model: 'm', messages, ...fields });
  assert.ok(checked.ok, JSON.stringify(checked));
  return checked.value;
}

function chatProblem(fields: Record<string, unknown>): Problem {
  const checked = parseChatRequest({ model: 'm', messages, ...fields });
  assert.ok(!checked.ok, `${JSON.stringify(fields).slice(0, 80)} was accepted`);
  return checked.problem;
}

function completion(prompt: unknown, fields: Record<string, unknown> = {}): CompletionRequest {
  const checked = parseCompletionRequest({ model: 'm', prompt, ...fields });
  assert.ok(checked.ok, JSON.stringify(checked));
  return checked.value;
}

test('mistakes are 400 and name the field in our own words', () => {
  const tool = (name: string): object => ({ type: 'function', function: { name } });
  const cases: [Record<string, unknown>, string][] = [
    [{ model: undefined }, 'model'],
    [{ model: 5 }, 'model'],
    [{ messages: [] }, 'messages'],
    [{ messages: undefined }, 'messages'],
    [{ messages: 'hi' }, 'messages'],
    [{ messages: [7] }, 'messages[0]'],
    [{ messages: [{ role: 'root', content: 'x' }] }, 'messages[0].role'],
    [{ messages: [...messages, { role: 'user' }] }, 'messages[1].content'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'messages[0].content'],
    [{ max_tokens: 'abc' }, 'max_tokens'],
    [{ max_tokens: 0 }, 'max_tokens'],
    [{ max_tokens: -5 }, 'max_tokens'],
    [{ max_tokens: 1.5 }, 'max_tokens'],
    [{ max_tokens: 1e12 }, 'max_tokens'],
    [{ max_completion_tokens: 0 }, 'max_completion_tokens'],
    [{ max_tokens: 3, min_tokens: 4 }, 'min_tokens'],
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, 'stop'],
    [{ stop: [''] }, 'stop'],
    [{ stop: [1] }, 'stop'],
    [{ temperature: 2.1 }, 'temperature'],
    [{ temperature: -0.1 }, 'temperature'],
    [{ temperature: Infinity }, 'temperature'],
    [{ top_p: 1.5 }, 'top_p'],
    [{ n: 0 }, 'n'],
    [{ n: 100_000 }, 'n'],
    [{ top_logprobs: 100 }, 'top_logprobs'],
    [{ logprobs: true }, 'logprobs'],
    [{ response_format: { type: 'json_schema', json_schema: {} } }, 'response_format'],
    [{ response_format: { type: 'json_object' } }, 'response_format'],
    [{ tools: [tool('x'.repeat(200))] }, 'tools[0].function.name'],
    [{ tools: Array.from({ length: 5000 }, () => tool('f')) }, 'tools'],
    [{ tool_choice: 'required' }, 'tool_choice'],
    [{ tool_choice: { type: 'function', function: { name: 'f' } } }, 'tool_choice'],
    [{ stream_options: { include_usage: true } }, 'stream_options'],
    [{ stream: 'yes' }, 'stream'],
    [{ logit_bias: { x: 1 } }, 'logit_bias'],
    [{ logit_bias: { 5: 101 } }, 'logit_bias'],
    [{ seed: 1.5 }, 'seed'],
    [{ seed: 1e19 }, 'seed'],
    [{ seed: '7' }, 'seed'],
    [{ kv_transfer_params: { remote_host: 'h' } }, 'kv_transfer_params'],
    [{ chat_template: '{{ x }}' }, 'chat_template'],
    [{ user: 4 }, 'user'],
    [{ user: { a: 1 } }, 'user'],
    [{ metadata: 'x' }, 'metadata'],
    [{ store: 'yes' }, 'store'],
    [{ service_tier: 1 }, 'service_tier'],
    [{ priority: 'x' }, 'priority'],
    [{ priority: 5 }, 'priority'],
    [{ verbosity: 'high' }, 'verbosity'],
    [{ include_reasoning: false }, 'include_reasoning'],
    [{ thinking_token_budget: 100 }, 'thinking_token_budget'],
    [{ reasoning_effort: 3 }, 'reasoning_effort'],
    [{ chat_template_kwargs: { messages: [] } }, 'chat_template_kwargs'],
    [{ chat_template_kwargs: JSON.parse('{"__proto__":{"a":1}}') }, 'chat_template_kwargs'],
    [{ chat_template_kwargs: [] }, 'chat_template_kwargs'],
  ];
  for (const [fields, param] of cases) {
    const problem = chatProblem(fields);
    assert.equal(problem.status, 400);
    assert.equal(problem.param, param, JSON.stringify(fields).slice(0, 80));
    assert.equal(problem.type, 'invalid_request_error');
    assert.doesNotMatch(problem.message, /zod|expected|received|Invalid input/);
  }
  assert.equal(chatProblem({ model: undefined }).code, 'missing_required_parameter');
});

test('no field that would steer KV or workers is taken, wherever servers look for it and however it is written', () => {
  const evil = {
    do_remote_prefill: true,
    remote_host: '169.254.169.254',
    remote_port: 80,
    remote_block_ids: [0, 1],
    tp_size: 1e9,
  };
  const cases: [Record<string, unknown>, string][] = [
    [{ kv_transfer_params: evil }, 'kv_transfer_params'],
    [{ KV_Transfer_Params: evil }, 'KV_Transfer_Params'],
    [{ 'kv-transfer-params': evil }, 'kv-transfer-params'],
    [{ kvTransferParams: {} }, 'kvTransferParams'],
    [{ ec_transfer_params: evil }, 'ec_transfer_params'],
    [{ do_remote_decode: false }, 'do_remote_decode'],
    [evil, 'do_remote_prefill'],
    [{ remote_host: 'h' }, 'remote_host'],
    [{ remote_bootstrap_addr: 'http://h' }, 'remote_bootstrap_addr'],
    [{ transfer_id: 't' }, 'transfer_id'],
    [{ kvSource: {}, stageKv: {} }, 'kvSource'],
    [{ bootstrap_room: 1 }, 'bootstrap_room'],
    [{ disaggregated_params: {} }, 'disaggregated_params'],
    [{ data_parallel_rank: 1 }, 'data_parallel_rank'],
    [{ extra_body: { kv_transfer_params: evil } }, 'extra_body.kv_transfer_params'],
    [{ vllm_xargs: { kv_transfer_params: evil } }, 'vllm_xargs.kv_transfer_params'],
    [{ vllm_xargs: { anything: 1 } }, 'vllm_xargs'],
    [
      { nvext: { extra_args: { disaggregated_params: 1 } } },
      'nvext.extra_args.disaggregated_params',
    ],
    [{ nvext: { backend_instance_id: 7 } }, 'nvext.backend_instance_id'],
    [{ nvext: { x: 1 } }, 'nvext'],
    [
      JSON.parse('{"extra_body":{"extra_body":{"__proto__":{},"remote_port":1}}}'),
      'extra_body.extra_body.remote_port',
    ],
  ];
  for (const [fields, param] of cases) {
    const problem = chatProblem(fields);
    assert.equal(problem.status, 400);
    assert.equal(problem.param, param);
    const other = parseCompletionRequest({ model: 'm', prompt: 'x', ...fields });
    assert.ok(!other.ok && other.problem.param === param);
  }
  assert.ok(chatProblem({ [`remote_${'x'.repeat(10_000)}`]: 1 }).message.length < 300);
  const tool = { name: 'f', parameters: { properties: { remote_host: { type: 'string' } } } };
  chat({
    kv_transfer_params: null,
    metadata: { remote_host: 'mine' },
    chat_template_kwargs: { remote_user: 1 },
    tools: [{ type: 'function', function: tool }],
    vllm_xargs: {},
    extra_body: { top_k: 1 },
  });
});

test('a refusal is a sentence', () => {
  const cases: [Record<string, unknown>, string][] = [
    [
      { kv_transfer_params: {} },
      '`kv_transfer_params` is set by Busbar itself and never taken from clients.',
    ],
    [{ chat_template: 'x' }, "`chat_template`: only the model's own template is used."],
    [{ bad_words: ['x'] }, '`bad_words` is not supported.'],
    [{ user: 4 }, '`user` must be a text.'],
  ];
  for (const [fields, message] of cases) assert.equal(chatProblem(fields).message, message);
});

test('what only the other endpoint has is refused, unless it asks for nothing', () => {
  const cases: Record<string, unknown> = {
    reasoning_effort: 'low',
    messages,
    tools: [{ type: 'function', function: { name: 'f' } }],
    chat_template_kwargs: { enable_thinking: true },
  };
  for (const [param, value] of Object.entries(cases)) {
    const checked = parseCompletionRequest({ model: 'm', prompt: 'x', [param]: value });
    assert.ok(!checked.ok, param);
    const { status, code, message } = checked.problem;
    assert.deepEqual([checked.problem.param, status, code], [param, 400, 'unsupported_parameter']);
    assert.equal(message, `\`${param}\` is a field of /v1/chat/completions only.`);
  }
  const problem = chatProblem({ prompt: 'x' });
  assert.equal(problem.message, '`prompt` is a field of /v1/completions only.');
  completion('x', {
    reasoning_effort: null,
    tools: [],
    chat_template_kwargs: {},
    add_generation_prompt: true,
  });
});

test('hints are taken, and the effort goes to the template like any variable', () => {
  const { templateVariables } = chat({
    service_tier: 'auto',
    store: false,
    metadata: { a: 'b' },
    priority: 0,
    verbosity: 'medium',
    reasoning_effort: 'low',
    chat_template_kwargs: { enable_thinking: true },
  });
  assert.deepEqual(templateVariables, { reasoning_effort: 'low', enable_thinking: true });
  const own = chat({ reasoning_effort: 'low', chat_template_kwargs: { reasoning_effort: 'high' } });
  assert.deepEqual(own.templateVariables, { reasoning_effort: 'high' });
});

test('null is the same as absent and harmless values of refused fields pass', () => {
  const request = chat({
    stop: null,
    n: null,
    max_tokens: null,
    logprobs: false,
    tool_choice: 'auto',
    response_format: { type: 'text' },
    user: 'u',
    stream_options: null,
    unknown_field: { deep: [1] },
  });
  assert.equal(request.params.candidates, 1);
  assert.equal(request.params.maxTokens, undefined);
  assert.deepEqual(request.params.sampling, {});
});

test('what was asked arrives', () => {
  const { params } = chat({
    max_tokens: 5,
    max_completion_tokens: 6,
    stop: 'x',
    stream: true,
    stream_options: { include_usage: true },
    seed: 3,
    top_k: -1,
    logit_bias: { 5: -100 },
    ignore_eos: true,
    stop_token_ids: [2],
    cache_salt: 's',
    n: 2,
  });
  assert.deepEqual(params, {
    candidates: 2,
    maxTokens: 6,
    maxTokensField: 'max_completion_tokens',
    minTokens: 0,
    ignoreEos: true,
    stop: ['x'],
    stopTokenIds: [2],
    isStream: true,
    includeUsage: true,
    continuousUsage: false,
    cacheSalt: 's',
    sampling: { seed: 3, topK: -1, logitBias: { 5: -100 } },
  });
});

test('tokens so far are told where the client wants usage at all', () => {
  for (const [include_usage, continuous_usage_stats, expected] of [
    [true, true, true],
    [true, null, false],
    [false, true, false],
    [undefined, true, false],
  ] as const) {
    const options = { include_usage, continuous_usage_stats };
    assert.equal(chat({ stream: true, stream_options: options }).params.continuousUsage, expected);
  }
});

test('text parts become one text; arguments of tool calls become objects', () => {
  const { messages: rendered, tools } = chat({
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'hi' }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'r' },
    ],
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
  });
  assert.deepEqual(rendered[0], { role: 'user', content: 'hi' });
  assert.deepEqual(rendered[1]!.tool_calls, [
    { id: 'c', type: 'function', function: { name: 'f', arguments: { a: 1 } } },
  ]);
  assert.deepEqual(tools, [
    { type: 'function', function: { name: 'f', parameters: { type: 'object' } } },
  ]);
  assert.equal(chat({ tools: [], tool_choice: 'none' }).tools, undefined);
});

test('prompts come in four shapes', () => {
  assert.deepEqual(completion('a').prompts, ['a']);
  assert.deepEqual(completion(['a', 'b']).prompts, ['a', 'b']);
  assert.deepEqual(completion([1, 2]).prompts, [Uint32Array.of(1, 2)]);
  assert.deepEqual(completion([[1], [2]]).prompts, [Uint32Array.of(1), Uint32Array.of(2)]);
  assert.equal(completion('a').params.maxTokens, 16);
  const tooMany = Array.from({ length: 129 }, () => 'x');
  for (const prompt of ['', [], [''], [[]], [-1], [1.5], [2 ** 32], ['a', 1], null, {}, tooMany]) {
    const checked = parseCompletionRequest({ model: 'm', prompt });
    assert.ok(!checked.ok, JSON.stringify(prompt));
    assert.equal(checked.problem.param, 'prompt');
  }
  assert.ok(!parseCompletionRequest({ model: 'm', prompt: ['a', 'b', 'c'], n: 64 }).ok);
});

test('bodies that would cost much are refused fast', () => {
  const prefix = '{"model":"m","messages":[{"role":"user","content":"x"}]';
  const list = (item: string, count: number): string => `[${`${item},`.repeat(count - 1)}${item}]`;
  const keys = Array.from({ length: 100_000 }, (_, i) => `"${i}":1`).join(',');
  const bombs: Record<string, string> = {
    depth: `${prefix},"metadata":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    stop: `${prefix},"stop":${list('"s"', 500_000)}}`,
    bias: `${prefix},"logit_bias":{${keys}}}`,
    tools: `${prefix},"tools":${list('{"type":"function","function":{"name":"f"}}', 5000)}}`,
    messages: `{"model":"m","messages":${list('{"role":"user","content":""}', 100_000)}}`,
    parts: `{"model":"m","messages":[{"role":"user","content":${list('1', 1_000_000)}}]}`,
    values: `${prefix},"metadata":${list('1', 2_000_000)}}`,
    surrogates: `${prefix},"stop":["${'\\ud800'.repeat(2000)}"]}`,
    unclosed: `${prefix},"user":"${'\\"'.repeat(1_000_000)}`,
  };
  for (const [name, body] of Object.entries(bombs)) {
    const start = process.cpuUsage();
    const parsed = parseJsonObject(body);
    const checked = parsed.ok ? parseChatRequest(parsed.value) : parsed;
    const usedMs = process.cpuUsage(start).user / 1_000;
    assert.ok(!checked.ok, name);
    assert.equal(checked.problem.status, 400, name);
    assert.ok(usedMs < 100, `${name} took ${usedMs} ms of processor time`);
  }
  const prompts = parseJsonObject(`{"model":"m","prompt":${list('"x"', 1_000_000)}}`);
  assert.ok(!prompts.ok);
  const numbers = parseJsonObject(`{"model":"m","prompt":${list('1', 1_000_000)}}`);
  assert.ok(numbers.ok && parseCompletionRequest(numbers.value).ok);
});

test('__proto__ in a body changes nothing', () => {
  const parsed = parseJsonObject(
    '{"__proto__":{"n":5},"model":"m","messages":[{"role":"user","content":"x","__proto__":{"role":"system"}}]}',
  );
  assert.ok(parsed.ok);
  const checked = parseChatRequest(parsed.value);
  assert.ok(checked.ok);
  assert.equal(checked.value.params.candidates, 1);
  assert.equal(checked.value.messages[0]!.role, 'user');
  assert.equal(Reflect.get({}, 'n'), undefined);
});

test('any JSON body gives a request or a problem with our words', () => {
  const body = fc.record(
    {
      model: fc.oneof(fc.constant('m'), fc.jsonValue()),
      messages: fc.oneof(fc.constant(messages), fc.array(fc.jsonValue()), fc.jsonValue()),
      prompt: fc.oneof(fc.string(), fc.array(fc.jsonValue())),
      stop: fc.jsonValue(),
      n: fc.jsonValue(),
      tools: fc.jsonValue(),
      stream_options: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(body, (value) => {
      const parsed = parseJsonObject(JSON.stringify(value));
      if (!parsed.ok) return;
      for (const parse of [parseChatRequest, parseCompletionRequest]) {
        const checked: ReturnType<typeof parseChatRequest | typeof parseCompletionRequest> = parse(
          parsed.value,
        );
        if (checked.ok) continue;
        assert.equal(checked.problem.status, 400);
        assert.ok(checked.problem.message.length < 300);
      }
    }),
  );
});
