import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { runSimulateCommand } from './command.ts';
import { workersOf } from './command-options.ts';
import { equalWorkers, openLoop } from './workload.ts';

async function simulate(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runSimulateCommand(args, {
    line: (text) => void out.push(text),
    errorLine: (text) => void err.push(text),
  });
  return { code, out: out.join('\n'), err: err.join('\n') };
}

describe('busbar simulate', () => {
  it('prints a row for each workload and policy, the same each time', async () => {
    const args = ['--workload', 'closed-12,unique', '--policy', 'predictive,kv', '--duration', '4'];
    const { code, out, err } = await simulate(...args);
    assert.equal(code, 0);
    assert.equal(err, '');
    assert.equal(out.match(/^closed-12 +predictive +72 +60\/60/gm)?.length, 1);
    assert.equal(out.match(/^(closed-12|unique) +(predictive|kv) /gm)?.length, 4);
    assert.equal((await simulate(...args)).out, out);
  });

  it('prints JSON and Markdown', async () => {
    const args = ['--workload', 'closed-12', '--policy', 'kv', '--seeds', '2'];
    const runs: unknown = JSON.parse((await simulate(...args, '--json')).out);
    assert.ok(Array.isArray(runs));
    assert.partialDeepStrictEqual(runs[0], { workload: 'closed-12', policy: 'kv', requests: 144 });
    assert.match((await simulate(...args, '--markdown')).out, /\| closed-12 \| \*\*/);
  });

  it('runs a trace from a file', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'busbar-simulator-'));
    try {
      const path = join(folder, 'trace.jsonl');
      const record = {
        timestamp: 0,
        input_length: 2048,
        output_length: 80,
        hash_ids: [1, 2, 3, 4],
      };
      await writeFile(path, `${JSON.stringify(record)}\n`.repeat(3));
      const { code, out } = await simulate('--trace', path, '--policy', 'kv');
      assert.equal(code, 0);
      assert.match(out, /^trace +kv +3 /m);
      const missing = await simulate('--trace', join(folder, 'none'));
      assert.equal(missing.code, 1);
      assert.match(missing.err, /cannot be read/);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it('explains itself, and what is wrong with flags', async () => {
    const help = await simulate('--help');
    assert.equal(help.code, 0);
    assert.match(help.out, /--kv-blocks/);
    assert.match(help.out, /hot-prefix/);
    const bad: [string[], RegExp][] = [
      [['--workload', 'nope'], /no workload "nope"; there are closed-12/],
      [['--policy', 'best'], /no policy "best"/],
      [['--profile', 'h100'], /no profile "h100"/],
      [['--workers', '0'], /--workers takes whole numbers from 1/],
      [['--seed', 'x'], /--seed/],
      [['--seed', '1', '--seeds', '2'], /not both/],
      [['--kv-blocks', '926,'], /--kv-blocks/],
      [['--trace-scale', '0'], /--trace-scale/],
      [['--speed', '2'], /--speed/],
      [['closed-12'], /closed-12/],
    ];
    for (const [args, message] of bad) {
      const { code, out, err } = await simulate(...args);
      assert.equal(code, 2, args.join(' '));
      assert.equal(out, '');
      assert.match(err, message);
      assert.match(err, /busbar simulate --help/);
    }
  });
});

describe('the workers of a run', () => {
  const workload = {
    name: 'w',
    title: '',
    workers: equalWorkers(2, 926),
    create: () => openLoop(() => [].values()),
  };

  it('are those of the workload, more of them, or with other caches', () => {
    const blocks = (workers: number | undefined, kvBlocks: number[] | undefined): number[] =>
      workersOf({ workers, kvBlocks }, workload).map((worker) => worker.kvBlocks);
    assert.deepEqual(blocks(undefined, undefined), [926, 926]);
    assert.deepEqual(blocks(3, undefined), [926, 926, 926]);
    assert.deepEqual(blocks(undefined, [500, 600, 700]), [500, 600, 700]);
    assert.deepEqual(blocks(4, [500, 600]), [500, 600, 500, 600]);
  });
});
