import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { BenchContext } from '../run.ts';

const run = promisify(execFile);

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
      figures.push({ file, ...(JSON.parse(line) as object) });
      context.say(`${file.replace('.bench.ts', '')}: ${line}`);
    }
  }
  return figures;
}
