import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hubFolder } from '@busbar/engine';
import type { Env } from './port.ts';

/**
 * The folder of a model: `name` itself, or for a name on the hub the snapshot that the hub's cache has of its main revision.
 * Undefined when neither is there.
 */
export async function findModelFolder(name: string, env: Env): Promise<string | undefined> {
  if (await isFolder(name)) return name;
  if (!/^[\w.-]+\/[\w.-]+$/.test(name)) return undefined;
  const model = join(hubFolder(env), `models--${name.replace('/', '--')}`);
  const revision = await readFile(join(model, 'refs', 'main'), 'utf8').catch(() => undefined);
  if (revision === undefined || !/^\w+$/.test(revision.trim())) return undefined;
  const folder = join(model, 'snapshots', revision.trim());
  return (await isFolder(folder)) ? folder : undefined;
}

async function isFolder(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.isDirectory() ?? false;
}
