import { readFileSync, writeFileSync } from 'node:fs';
import { DOCTOR_STACKS, diagnosed } from '../test/e2e/doctor-stacks.ts';

/**
 * Runs each stack that the end-to-end test of doctor knows and puts what doctor says of it into the guide. Takes about two minutes;
 * a title as an argument runs only that one.
 */
const file = new URL('../docs/guides/doctor.md', import.meta.url);
const wanted = process.argv[2];

for (const stack of DOCTOR_STACKS) {
  if (wanted !== undefined && stack.title !== wanted) continue;
  const { text, exitCode } = await diagnosed(stack);
  const guide = readFileSync(file, 'utf8');
  const head = `\n### ${stack.title}\n`;
  const [before, rest] = guide.split(head);
  if (before === undefined || rest === undefined)
    throw new Error(`the guide has no ${head.trim()}`);
  const shown = rest.replace(/```text\n[\s\S]*?```/, () => `\`\`\`text\n${text.trimEnd()}\n\`\`\``);
  writeFileSync(file, before + head + shown);
  process.stdout.write(`${stack.title}: exit code ${exitCode}\n`);
}
