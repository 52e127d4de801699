import { readFile, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Env } from './port.ts';

/**
 * The folder of a model: `name` itself, or for a name on the hub the snapshot that the hub's cache has of its main revision.
 * Undefined when neither is there.
 */
export async function findModelFolder(name: string, env: Env): Promise<string | undefined> {
  if (await isFolder(name)) return name;
  if (!/^[\w.-]+\/[\w.-]+$/.test(name)) return undefined;
  const cache =
    env['HF_HUB_CACHE'] ??
    join(
      env['HF_HOME'] ?? join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'huggingface'),
      'hub',
    );
  const model = join(cache, `models--${name.replace('/', '--')}`);
  const revision = await readFile(join(model, 'refs', 'main'), 'utf8').catch(() => undefined);
  if (revision === undefined || !/^\w+$/.test(revision.trim())) return undefined;
  const folder = join(model, 'snapshots', revision.trim());
  return (await isFolder(folder)) ? folder : undefined;
}

async function isFolder(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() ?? false;
}
