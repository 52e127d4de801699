import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ChatMessage, loadTokenizer, TokenizerError } from '../index.ts';
import { ChatTemplate } from './chat-template.ts';

const chat = (template: string, config: object = {}): ChatTemplate =>
  new ChatTemplate({ ...config, chat_template: template }, undefined);
const user = (content: ChatMessage['content']): ChatMessage[] => [
  { role: 'user', content: content ?? null },
];

function refusal(render: () => string): TokenizerError {
  try {
    render();
  } catch (error) {
    assert.ok(error instanceof TokenizerError);
    assert.equal(error.code, 'TOKENIZER_TEMPLATE');
    return error;
  }
  throw new Error('nothing was refused');
}

test('a string, its one-part form and its ids are the same prompt', async () => {
  const tokenizer = await loadTokenizer();
  const asString = tokenizer.renderChat(user('How are you?'));
  assert.equal(asString, '<|im_start|>user\nHow are you?<|im_end|>\n<|im_start|>assistant\n');
  assert.equal(tokenizer.renderChat(user([{ type: 'text', text: 'How are you?' }])), asString);
  const ids = await tokenizer.encode(asString, { parseSpecial: true });
  assert.equal(ids.filter((id) => id >= 4093).length, 3);
  await tokenizer.close();
});

test('tools, tool calls and an open or closed last turn', async () => {
  const tokenizer = await loadTokenizer();
  const tools = [{ type: 'function', function: { name: 'add' } }];
  const call = {
    id: '1',
    type: 'function',
    function: { name: 'add', arguments: '{"a": 1, "b": [2]}' },
  };
  const messages: ChatMessage[] = [
    ...user('1+2?'),
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', content: '3', tool_call_id: '1' },
  ];
  const prompt = tokenizer.renderChat(messages, { tools, addGenerationPrompt: false });
  assert.equal(
    prompt,
    '<|im_start|>system\nTools:\n{"type": "function", "function": {"name": "add"}}<|im_end|>\n' +
      '<|im_start|>user\n1+2?<|im_end|>\n' +
      '<|im_start|>assistant\n\n<tool_call>{"name": "add", "arguments": {"a": 1, "b": [2]}}</tool_call><|im_end|>\n' +
      '<|im_start|>tool\n3<|im_end|>\n',
  );
  assert.equal(
    call.function.arguments,
    '{"a": 1, "b": [2]}',
    "the caller's messages stay as they were",
  );
  await tokenizer.close();
});

test('several text parts are lines of one content; a missing content is empty', () => {
  const template = chat('{% for m in messages %}[{{ m.content }}]{% endfor %}');
  const parts = ['a', 'b'].map((text) => ({ type: 'text' as const, text }));
  assert.equal(template.render([...user(parts), { role: 'assistant' }, ...user('')]), '[a\nb][][]');
});

test('the template sees the special tokens, the options and what the request adds', () => {
  const template = chat(
    '{{ bos_token }}|{{ eos_token }}|{{ add_generation_prompt }}|{{ enable_thinking }}|{{ tools is none }}|{{ strftime_now("%Y") | length }}',
    { bos_token: '<s>', eos_token: '</s>' },
  );
  const text = template.render(user('x'), {
    addGenerationPrompt: false,
    extra: { enable_thinking: true },
  });
  assert.equal(text, '<s>|</s>|false|true|true|4');
});

test('named templates: the one for tools when there are tools, the file before the default', () => {
  const named = [
    { name: 'default', template: 'plain' },
    { name: 'tool_use', template: 'with tools' },
  ];
  const declared = new ChatTemplate({ chat_template: named }, undefined);
  assert.equal(declared.render(user('x')), 'plain');
  assert.equal(declared.render(user('x'), { tools: [{}] }), 'with tools');
  assert.equal(
    new ChatTemplate({ chat_template: named }, 'from the file').render(user('x')),
    'from the file',
  );
});

test("refusals carry the template's own words", () => {
  const picky = chat("{{ raise_exception('Conversation roles must alternate') }}");
  assert.equal(refusal(() => picky.render(user('x'))).message, 'Conversation roles must alternate');
  assert.match(refusal(() => chat('{% if %}').render(user('x'))).message, /\S/);
  assert.match(
    refusal(() => new ChatTemplate({}, undefined).render(user('x'))).message,
    /no chat template/,
  );
});

test('keys of messages that shadow object members do no harm', () => {
  const hostile: ChatMessage = JSON.parse(
    '{"role":"user","content":"x","__proto__":{"a":1},"constructor":1}',
  );
  assert.equal(chat('{{ messages[0].content }}').render([hostile]), 'x');
  assert.equal(Reflect.get({}, 'a'), undefined);
});
