import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { interrupts } from './interrupts.ts';

const bin = fileURLToPath(new URL('../bin/busbar.cjs', import.meta.url));

test('the command runs as it is, and under an old Node by starting the project’s own', () => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-bin-'));
  const old = join(folder, 'old.cjs');
  writeFileSync(
    old,
    'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } });',
  );
  for (const flags of [[], ['--require', old]]) {
    const good = spawnSync(process.execPath, [...flags, bin, '--version'], { encoding: 'utf8' });
    assert.deepEqual([good.status, good.stderr], [0, '']);
    assert.match(good.stdout, /^\d+\.\d+\.\d+\n$/);
    const wrong = spawnSync(process.execPath, [...flags, bin, 'nope'], { encoding: 'utf8' });
    assert.equal(wrong.status, 2, 'the exit code comes through');
  }
  rmSync(folder, { recursive: true });
});

test('the same Ctrl-C twice is one interruption, a later one hurries', () => {
  const listeners = new Map<string, () => void>();
  let now = 0;
  const { signal, hurry } = interrupts(
    { on: (event, listener) => listeners.set(event, listener) },
    () => now,
  );
  listeners.get('SIGINT')?.();
  now = 100;
  listeners.get('SIGINT')?.();
  assert.deepEqual([signal.aborted, hurry.aborted], [true, false]);
  now = 1000;
  listeners.get('SIGTERM')?.();
  assert.equal(hurry.aborted, true);
});
