import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { DOCTOR_STACKS, type DoctorStack, diagnosed } from './doctor-stacks.ts';

/** Everything together, on a machine with two slow cores: each step of doctor has a limit of its own. */
const DOCTOR_MS = 60_000;
const STALE = 'the guide shows something else; "node scripts/doctor-guide.ts" writes it anew';
const guide = readFileSync(new URL('../../docs/guides/doctor.md', import.meta.url), 'utf8');

/** One test for each stack of this kind: what doctor says, its exit code, its time, and whether the guide shows the same. */
export function testDoctor(about: DoctorStack['about']): void {
  for (const stack of DOCTOR_STACKS.filter((each) => each.about === about)) {
    test(`doctor: ${stack.title}`, async () => {
      const { exitCode, text, tookMs } = await diagnosed(stack);
      for (const line of stack.says) {
        assert.match(text, line);
        assert.match(guideOf(stack.title), line, STALE);
      }
      assert.equal(exitCode, stack.exitCode, text);
      assert.ok(tookMs < DOCTOR_MS, `${tookMs} ms`);
      const shown = faults(guideOf(stack.title));
      const missing = faults(text).filter((name) => !shown.includes(name));
      assert.deepEqual(missing, [], STALE);
    });
  }
}

/** What the guide shows below this heading. */
function guideOf(title: string): string {
  const [, rest = ''] = guide.split(`\n### ${title}\n`);
  return rest.split('\n### ')[0] ?? '';
}

/** Names of the checks that failed, without what differs from stack to stack. How they are told depends on the moment. */
function faults(text: string): string[] {
  return text
    .split('\n')
    .filter((line) => /^\s+✗/.test(line))
    .map((line) => (line.trim().split(': ')[0] ?? '').replace(/-[a-z0-9]{4}$/, ''));
}
