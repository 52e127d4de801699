import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { busPage } from './reference/bus.ts';
import { cliPage } from './reference/cli.ts';
import { configurationPage } from './reference/configuration.ts';
import { errorsPage } from './reference/errors.ts';
import { limitsPage } from './reference/limits.ts';
import { metricsPage } from './reference/metrics.ts';

const folder = new URL('../docs/reference/', import.meta.url);
const isCheck = process.argv.includes('--check');
const stale: string[] = [];

mkdirSync(folder, { recursive: true });
for (const { file, text } of [
  configurationPage(),
  busPage(),
  limitsPage(),
  metricsPage(),
  await cliPage(),
  errorsPage(),
]) {
  const target = new URL(file, folder);
  if (read(target) === text) continue;
  stale.push(file);
  if (!isCheck) writeFileSync(target, text);
}

if (stale.length === 0) process.stdout.write('docs/reference is up to date\n');
else if (isCheck) {
  process.stderr.write(
    `docs/reference is not up to date: ${stale.join(', ')}. Run "npm run reference".\n`,
  );
  process.exitCode = 1;
} else process.stdout.write(`written: ${stale.join(', ')}\n`);

function read(file: URL): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
