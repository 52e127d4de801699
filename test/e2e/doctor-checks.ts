import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { DOCTOR_STACKS, type DoctorStack, diagnosed } from './doctor-stacks.ts';

/** Everything together, on a machine with two slow cores: each step of doctor has a limit of its own. */
const DOCTOR_MS = 60_000;
const guide = readFileSync(new URL('../../docs/guides/doctor.md', import.meta.url), 'utf8');

/** One test for each stack of this kind: what doctor says, its exit code, its time, and whether the guide shows the same. */
export function testDoctor(about: DoctorStack['about']): void {
  for (const stack of DOCTOR_STACKS.filter((each) => each.about === about)) {
    test(`doctor: ${stack.title}`, async () => {
      const { exitCode, text, tookMs } = await diagnosed(stack);
      for (const line of stack.says) assert.match(text, line);
      assert.equal(exitCode, stack.exitCode, text);
      assert.ok(tookMs < DOCTOR_MS, `${tookMs} ms`);
      assert.deepEqual(
        said(text).filter((line) => !said(guideOf(stack.title)).includes(line)),
        [],
        'the guide shows these faults; "node scripts/doctor-guide.ts" writes it anew',
      );
    });
  }
}

/** What the guide shows below this heading. */
function guideOf(title: string): string {
  const [, rest = ''] = guide.split(`\n### ${title}\n`);
  return rest.split('\n### ')[0] ?? '';
}

/** The faults, without names' ends, figures and units. */
function said(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => /^\s+✗/.test(line))
    .map((line) =>
      line
        .trim()
        .replaceAll(/-(\d+)-[a-z0-9]{4}\b/g, '-$1')
        .replaceAll(/[\d.,]+( (ms|s|kB|MB|GB))?/g, '#'),
    );
}
