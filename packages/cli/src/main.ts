import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { interrupts } from './interrupts.ts';
import { runCli } from './program/run.ts';
import { createTerminal, outliveReader } from './terminal/terminal.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const manifest: { version: string } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
);
const { signal, hurry } = interrupts(process);

for (const stream of [process.stdout, process.stderr]) outliveReader(stream);

let lines: AsyncIterator<string> | undefined;
async function readLine(prompt: string): Promise<string | undefined> {
  if (prompt !== '') process.stdout.write(prompt);
  lines ??= createInterface({ input: process.stdin, signal })[Symbol.asyncIterator]();
  const next = await lines.next();
  return next.done === true ? undefined : next.value;
}

process.exitCode = await runCli(
  {
    terminal: createTerminal(process.stdout, process.stderr, process.env),
    env: process.env,
    root,
    signal,
    hurry,
    readLine,
    isInputTty: process.stdin.isTTY,
  },
  process.argv.slice(2),
  manifest.version,
  process.cwd(),
);
process.exit();
