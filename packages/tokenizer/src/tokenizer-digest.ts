import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** SHA-256, in hex, of the tokenizer.json of a model folder: equal digests give equal ids. Rejects when it cannot be read. */
export async function tokenizerDigest(folder: string): Promise<string> {
  const bytes = await readFile(join(folder, 'tokenizer.json'));
  return createHash('sha256').update(bytes).digest('hex');
}
