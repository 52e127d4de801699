import assert from 'node:assert/strict';
import { test } from 'node:test';
import { progressOf, StartLog } from './start-log.ts';

function causeOf(lines: readonly string[]): string {
  const log = new StartLog();
  for (const line of lines) log.add(line);
  return log.rootCause();
}

const CORE = '(EngineCore pid=7) ERROR 11-30 02:11:26 [core.py:900]';

test('the root cause is the first exception, not the last, and not a source line', () => {
  const cause = causeOf([
    '(APIServer pid=1) INFO 11-30 vLLM server version 0.32.0',
    `${CORE} Traceback (most recent call last):`,
    `${CORE}   File "/v/core.py", line 3, in run`,
    `${CORE}     raise ValueError: (`,
    `${CORE} ValueError: No common block size for 16 (CPU_ATTN: [MultipleOf(32)])`,
    ...Array.from({ length: 400 }, (_, i) => `INFO noise ${i}`),
    'RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}',
  ]);
  assert.match(cause, /^ValueError: No common block size for 16/);
});

test('a wrong argument has no exception', () => {
  const cause = causeOf([
    'usage: vllm serve ...',
    'vllm: error: unrecognized arguments: --enable-x',
  ]);
  assert.equal(cause, 'unrecognized arguments: --enable-x');
});

test('well-known causes say what to do', () => {
  assert.match(
    causeOf([
      'RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW',
    ]),
    /update the driver/,
  );
  assert.match(
    causeOf(['torch.AcceleratorError: CUDA error: no kernel image is available for execution']),
    /no code for this GPU/,
  );
  assert.match(
    causeOf(["OSError: [Errno 98] Address already in use: ('127.0.0.1', 8000)"]),
    /a port is taken/,
  );
});

test('a log without an error gives its last line, an empty one says so', () => {
  assert.equal(causeOf(['one', 'two', ' ']), 'two');
  assert.equal(causeOf([]), 'it wrote nothing');
});

test('the log is bounded', () => {
  const log = new StartLog();
  for (let i = 0; i < 10_000; i++) log.add('x'.repeat(10_000));
  assert.equal(log.tail.length, 200);
  assert.equal(log.tail[0]?.length, 2_000);
});

test('lines that tell how far the start is', () => {
  assert.equal(
    progressOf('(EngineCore pid=7) INFO 11-30 [x.py:1] GPU KV cache size: 118,112 tokens'),
    'GPU KV cache size: 118,112 tokens',
  );
  assert.equal(progressOf('INFO whatever'), undefined);
});
