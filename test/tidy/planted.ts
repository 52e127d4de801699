import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { root } from './files.ts';

const CONFIGURATION = [
  '.oxlintrc.json',
  'biome.json',
  'package-lock.json',
  'package.json',
  'tsconfig.json',
  'turbo.json',
];

/** A copy of the project's configuration in which faults can be planted. */
export class Plantation {
  readonly folder = mkdtempSync(join(tmpdir(), 'busbar-tidy-'));

  constructor() {
    for (const file of CONFIGURATION) cpSync(join(root, file), join(this.folder, file));
    symlinkSync(join(root, 'node_modules'), join(this.folder, 'node_modules'));
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  copy(path: string): void {
    cpSync(join(root, path), join(this.folder, path), { recursive: true });
  }

  /** Runs a tool of node_modules/.bin; both outputs in one text. */
  run(tool: string, ...args: string[]): { exitCode: number | null; output: string } {
    const { status, stdout, stderr } = spawnSync(join(root, 'node_modules', '.bin', tool), args, {
      cwd: this.folder,
      encoding: 'utf8',
      env: toolEnv(),
      timeout: 60_000,
    });
    return { exitCode: status, output: `${stdout}${stderr}` };
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Without colours and without the reports that tools send home. */
function toolEnv(): Record<string, string | undefined> {
  return {
    ...process.env,
    NO_COLOR: '1',
    FORCE_COLOR: undefined,
    TURBO_TELEMETRY_DISABLED: '1',
    DO_NOT_TRACK: '1',
  };
}
