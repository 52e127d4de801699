import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where the hub's clients keep what they downloaded, by their own variables. */
export function hubFolder(env: Readonly<Record<string, string | undefined>>): string {
  const home =
    env['HF_HOME'] ?? join(env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'huggingface');
  return env['HF_HUB_CACHE'] ?? join(home, 'hub');
}
