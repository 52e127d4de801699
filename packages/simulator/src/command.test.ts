import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { z } from 'zod';
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

  it('compares modes of disaggregation over links', async () => {
    const args = ['--prefill', '1', '--prefill-speed', '1.9', '--prefill-kv-blocks', '1693'];
    args.push('--link-gbit', '1,100', '--disaggregation', 'never,always,auto');
    args.push('--workload', 'words-3000x1');
    const { code, out, err } = await simulate(...args);
    assert.equal(code, 0);
    assert.equal(err, '');
    assert.equal(out.match(/^words-3000x1 +(1|100) Gbit\/s +(never|always|auto) /gm)?.length, 6);
    assert.match(out, /^words-3000x1 +1 Gbit\/s +always +predictive +24 +0 .* 8\.46 GB /m);
    assert.match(out, /^words-3000x1 +1 Gbit\/s +auto +predictive +0 +24 .* 0\.00 GB /m);
    assert.equal((await simulate(...args)).out, out);
    assert.match(
      (await simulate(...args, '--markdown')).out,
      /\| words-3000x1 \| 1 Gbit\/s \| never /,
    );
    const runs: unknown = JSON.parse((await simulate(...args, '--json')).out);
    assert.ok(Array.isArray(runs));
    assert.partialDeepStrictEqual(runs[1], { mode: 'always', linkGbit: 1, split: { splits: 24 } });
  });

  it('runs any workload with prefill workers, and splits by a threshold', async () => {
    const args = ['--prefill', '1', '--link-gbit', '100', '--disaggregation', 'threshold'];
    args.push('--workload', 'unique', '--duration', '3', '--json');
    const splits = async (tokens: string): Promise<unknown> => {
      const { out, code } = await simulate(...args, '--disaggregation-threshold', tokens);
      assert.equal(code, 0);
      return z.array(z.object({ split: z.object({ splits: z.int() }) })).parse(JSON.parse(out))[0];
    };
    assert.deepEqual(await splits('4000'), { split: { splits: 0 } });
    assert.notDeepEqual(await splits('500'), { split: { splits: 0 } });
  });

  it('explains itself, and what is wrong with flags', async () => {
    const help = await simulate('--help');
    assert.equal(help.code, 0);
    assert.match(help.out, /--kv-blocks/);
    assert.match(help.out, /hot-prefix/);
    const workload = ['--workload', 'closed-12', '--policy', 'kv'];
    for (const flags of [workload, ['--prefill', '1', '--link-gbit', '25', ...workload]]) {
      const { out } = await simulate(...flags);
      const heads = out.split('\n', 1)[0]!.split(/ {2,}/);
      const own = heads.filter(
        (head) => !/^(workload|policy|requests|link|mode|p\d\d)$/.test(head),
      );
      const explained = help.out.slice(help.out.indexOf('Columns:'));
      for (const head of own) assert.ok(explained.includes(head.replace(/ p50$/, '')), head);
    }
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
      [['--link-gbit', '10'], /--link-gbit says nothing without --prefill/],
      [['--prefill', '0'], /--prefill takes whole numbers from 1/],
      [['--prefill', '1', '--link-gbit', '10,0'], /--link-gbit takes a number above 0/],
      [
        ['--prefill', '1', '--disaggregation', 'maybe'],
        /no disaggregation "maybe"; there are auto/,
      ],
      [['--prefill', '1', '--kv-bytes-per-token', 'x'], /--kv-bytes-per-token/],
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
