import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Template } from '@huggingface/jinja';
import fc from 'fast-check';
import { traceTemplate } from './template-trace.ts';
import { TracedTemplate } from './traced-template.ts';

/** In the manner of the templates that models come with: what they test, strip, join, refuse and remember. */
const TEMPLATES: Record<string, string> = {
  plain:
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
  stripping:
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'].strip() %}{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{% if loop.first and system %}{{ '[' + system + ']' }}{% endif %}{{ m['role'] + ': ' + m['content'] | trim + eos_token }}{% endfor %}",
  reasoning:
    "{% set ns = namespace(last=messages|length - 1, found=false) %}{% for m in messages[::-1] %}{% if not ns.found and m.role == 'user' and not(m.content.startswith('<tool>') and m.content.endswith('</tool>')) %}{% set ns.found = true %}{% set ns.last = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{% if m.role == 'assistant' %}{% set content = m.content %}{% set thought = '' %}{% if m.reasoning is defined %}{% set thought = m.reasoning %}{% elif '</think>' in m.content %}{% set thought = m.content.split('</think>')[0].rstrip('\\n') %}{% set content = m.content.split('</think>')[-1].lstrip('\\n') %}{% endif %}{% if loop.index0 > ns.last and thought %}{{ '<think>' + thought.strip('\\n') + '</think>' + content.lstrip('\\n') }}{% else %}{{ content }}{% endif %}{% elif m.content is string and m.content %}{{ m.role ~ ':' ~ m.content }}{% else %}{{ m.role + ' says nothing' }}{% endif %}{{ '\\n' }}{% endfor %}{% if extra is defined and extra %}{{ extra }}{% endif %}",
  macros:
    "{% macro turn(role, text) %}{{ '<' + role + '>' + text }}{% endmacro %}{% for m in messages %}{{ turn(m.role, m.content) }}{% endfor %}",
  measuring:
    "{% for m in messages %}{% if m.content | length > 5 %}{{ 'long ' }}{% endif %}{{ m.content[0] }}{{ m.content | upper }}{% endfor %}",
  printing: '{{ messages | tojson }}',
  searching: "{% for m in messages %}{{ m.content in 'abc def' }}{% endfor %}",
  comparing:
    "{% for m in messages %}{% if m.content == 'ping' %}pong{% else %}{{ m.content }}{% endif %}{% endfor %}",
};
const TRACEABLE = ['plain', 'stripping', 'reasoning', 'comparing'];

const roles = fc.array(fc.constantFrom('system', 'user', 'assistant', 'tool'), { maxLength: 5 });
/** Texts made of what templates look for, so that every guard fails now and then. */
const text = fc
  .array(
    fc.oneof(
      fc.constantFrom('<tool>', '</tool>', '</think>', '<think>', '\n', ' ', 'ping', 'abc', ''),
      fc.string({ maxLength: 4, unit: 'grapheme' }),
    ),
    { maxLength: 4 },
  )
  .map((parts) => parts.join(''));

function outcome(render: () => string): string {
  try {
    return render();
  } catch (error) {
    return `throws ${String(error)}`;
  }
}

for (const [name, source] of Object.entries(TEMPLATES)) {
  test(`${name}: a traced template writes what the template writes, for any texts`, () => {
    const traced = new TracedTemplate(source);
    const plain = new Template(source);
    fc.assert(
      fc.property(
        roles,
        fc.array(text, { minLength: 5, maxLength: 5 }),
        fc.boolean(),
        (by, texts, agp) => {
          const context = {
            bos_token: '<s>',
            eos_token: '</s>',
            tools: null,
            add_generation_prompt: agp,
            messages: by.map((role, at) => ({ role, content: texts[at] ?? '' })),
          };
          const expected = outcome(() => plain.render(context));
          assert.equal(
            outcome(() => traced.render(context, `${agp}`, true)),
            expected,
          );
          // The second time the trace is there.
          assert.equal(
            outcome(() => traced.render(context, `${agp}`, true)),
            expected,
          );
        },
      ),
      { numRuns: 300 },
    );
  });
}

test('what only writes, joins, tests and strips is traced; what looks closer is not', () => {
  for (const [name, source] of Object.entries(TEMPLATES)) {
    const globals = { bos_token: '', eos_token: '', tools: null, add_generation_prompt: true };
    const trace = traceTemplate(
      new Template(source),
      source,
      ['user', 'assistant', 'user'],
      globals,
    );
    assert.equal(trace !== undefined, TRACEABLE.includes(name), name);
  }
});

test('the traced form is the one that is used', () => {
  const source = TEMPLATES['reasoning']!;
  const globals = { add_generation_prompt: true };
  const trace = traceTemplate(new Template(source), source, ['user', 'assistant'], globals);
  assert.deepEqual(trace?.slots, [0, 1]);
  assert.deepEqual(trace.literals, ['user:', '\n', '\n']);
  assert.ok(trace.guards.some((guard) => guard.kind === 'includes' && guard.text === '</think>'));
});

test('a message with more than role and content goes the usual way', () => {
  const traced = new TracedTemplate(TEMPLATES['reasoning']!);
  const messages = [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: 'b', reasoning: 'a' },
  ];
  assert.equal(traced.render({ messages }, '', true), 'user:x\n<think>a</think>b\n');
});
