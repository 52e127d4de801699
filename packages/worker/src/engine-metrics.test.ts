import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Engine } from '@busbar/engine';
import fc from 'fast-check';
import { EngineMetrics, relabel } from './engine-metrics.ts';

const LABELS = { worker: 'd-1', role: 'decode' };
const PAGE = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a \\"b\\" {c}"} 3.0
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 44.26
# HELP vllm:ttft_seconds Histogram
# TYPE vllm:ttft_seconds histogram
vllm:ttft_seconds_bucket{engine="0",le="+Inf"} 1.0
vllm:ttft_seconds_sum{engine="0"} NaN
up 1 1700000000000
this is no metric
half{a="b" 3
word three
`;

test('each sample gets the labels of the worker; what the page has already and what is no metric is left out', () => {
  const text = relabel(PAGE, LABELS, (name) => name.startsWith('process_'));
  assert.equal(
    text,
    `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{worker="d-1",role="decode",engine="0",model_name="a \\"b\\" {c}"} 3.0
# HELP vllm:ttft_seconds Histogram
# TYPE vllm:ttft_seconds histogram
vllm:ttft_seconds_bucket{worker="d-1",role="decode",engine="0",le="+Inf"} 1.0
vllm:ttft_seconds_sum{worker="d-1",role="decode",engine="0"} NaN
up{worker="d-1",role="decode"} 1 1700000000000
`,
  );
});

test('a family that is taken goes with its histogram and counter samples', () => {
  assert.equal(
    relabel('a_total 1\na_bucket{le="1"} 2\n', LABELS, (name) => name === 'a'),
    '',
  );
});

test('any text gives lines of the format or none', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 200 }), (text) => {
      for (const line of relabel(text, LABELS, () => false)
        .split('\n')
        .slice(0, -1)) {
        assert.match(line, /^(# (HELP|TYPE) |[a-zA-Z_:][\w:]*\{worker="d-1",role="decode".*\} )/);
      }
    }),
  );
});

test('the engine is asked once a second, and neither its failure nor its silence shows', async () => {
  let asked = 0;
  let nowMs = 0;
  let answer = (): Promise<string> => Promise.resolve('a 1');
  const engine = {
    metricsText: () => {
      asked++;
      return answer();
    },
  } as unknown as Engine;
  const clock = { monotonicMs: () => nowMs, wallMs: () => 0 };
  const page = new EngineMetrics({ engine, clock, labels: LABELS, taken: () => false });
  assert.equal(await page.text(), await page.text());
  assert.equal(asked, 1);
  nowMs = 1_500;
  answer = () => Promise.reject(new Error('gone'));
  assert.equal(await page.text(), '');
  nowMs = 3_000;
  answer = () => new Promise(() => {});
  assert.equal(await page.text(), '');
  assert.equal(asked, 3);
});
