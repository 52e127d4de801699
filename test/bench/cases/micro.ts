import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { BenchContext } from '../run.ts';

const run = promisify(execFile);

/** One line of a benchmark. */
interface Figure {
  name: string;
  unit: string;
  min: number;
  median: number;
  runs: number;
}

/** Every benchmark of one core, each in a process of its own; they print one JSON line a figure. */
export async function benchMicro(context: BenchContext): Promise<unknown> {
  const folder = join(import.meta.dirname, '../micro');
  const figures: unknown[] = [];
  for (const file of (await readdir(folder))
    .filter((name) => name.endsWith('.bench.ts'))
    .toSorted()) {
    const { stdout } = await run(process.execPath, ['--expose-gc', join(folder, file)], {
      maxBuffer: 1e7,
      timeout: 300_000,
    });
    for (const line of stdout.split('\n').filter((text) => text.startsWith('{'))) {
      const figure = JSON.parse(line) as Figure;
      figures.push({ file, ...figure });
      const spread = figure.runs > 1 ? ` (lowest of ${figure.runs}: ${figure.min})` : '';
      const name = `${file.replace('.bench.ts', '')}: ${figure.name}`;
      context.say(`${name}: ${figure.median} ${figure.unit}${spread}`);
    }
  }
  return figures;
}
