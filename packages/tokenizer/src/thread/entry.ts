import { Piscina } from 'piscina';
import { AddedTokenSplitter } from '../added-token-splitter.ts';
import { TokenizerError } from '../errors.ts';
import { FastEncoder } from '../fast/fast-encoder.ts';
import type { FastModel } from '../fast/fast-model.ts';
import type { EncodeFlags, HfEncoder } from '../huggingface/hf-encoder.ts';
import type { AddedToken } from '../huggingface/tokenizer-json.ts';
import { IdBuffer } from '../id-buffer.ts';
import type { LoadedModel } from './loaded-model.ts';

/** What a thread is started with: a proven model in shared memory, or the folder to load. */
export type ThreadData =
  | {
      readonly kind: 'fast';
      readonly model: FastModel;
      readonly addedTokens: readonly AddedToken[];
    }
  | { readonly kind: 'folder'; readonly folder: string };

export type LoadAnswer =
  | { readonly loaded: LoadedModel }
  | {
      readonly loaded: undefined;
      readonly error: TokenizerError['code'];
      readonly message: string;
    };

let fast: { encoder: FastEncoder; addedTokens: readonly AddedToken[] } | undefined;
let hf: HfEncoder | undefined;
const out = new IdBuffer();

function threadData(): ThreadData {
  // Piscina types this as any; only ThreadPool starts this file, and it hands over ThreadData.
  const data: ThreadData = Piscina.workerData;
  return data;
}

function fastPath(): NonNullable<typeof fast> {
  if (fast !== undefined) return fast;
  const data = threadData();
  if (data.kind !== 'fast') throw new Error('this thread has no fast model');
  fast = { encoder: new FastEncoder(data.model), addedTokens: data.addedTokens };
  return fast;
}

/** Loads the folder of this thread. Failures are answered, because a thrown error loses its code between threads. */
export async function load(): Promise<LoadAnswer> {
  const data = threadData();
  if (data.kind !== 'folder') throw new Error('this thread has no folder');
  try {
    const { loadModel } = await import('./load-model.ts');
    const result = await loadModel(data.folder);
    if (result.loaded.fast === undefined) hf = result.hf;
    return { loaded: result.loaded };
  } catch (error) {
    const known = error instanceof TokenizerError ? error : undefined;
    return {
      loaded: undefined,
      error: known?.code ?? 'TOKENIZER_INVALID',
      message: error instanceof Error ? error.message : String(error),
    };
  }
}

/** Encodes segments with the fast path. The answer is moved: where the ids and the cuts of each end, then all ids and cuts. */
export function encodeSegments(segments: readonly string[]): unknown {
  const { encoder } = fastPath();
  out.append(new Uint32Array(segments.length * 2));
  for (const [at, segment] of segments.entries()) {
    const cuts = encoder.encodeWithCuts(segment, out);
    out.ids[at * 2] = out.length;
    out.append(cuts);
    out.ids[at * 2 + 1] = out.length;
  }
  return Piscina.move(out.take());
}

/** Encodes a whole text with the fast path, without what goes around it. The answer, a Uint32Array, is moved. */
export function encodeWhole(task: { text: string; parseSpecial: boolean }): unknown {
  const { encoder, addedTokens } = fastPath();
  const parsed = addedTokens.filter((token) => task.parseSpecial || !token.special);
  for (const section of new AddedTokenSplitter(parsed).split(task.text)) {
    if (typeof section === 'number') out.push(section);
    else encoder.encodeInto(section, out);
  }
  return Piscina.move(out.take());
}

/** Encodes a whole text with Hugging Face's library. The answer, a Uint32Array, is moved. */
export async function encodeText(task: { text: string; flags: EncodeFlags }): Promise<unknown> {
  if (hf === undefined) {
    const answer = await load();
    if (answer.loaded === undefined) throw new Error(answer.message);
  }
  if (hf === undefined) throw new Error('this model encodes by the fast path');
  return Piscina.move(hf.encode(task.text, task.flags));
}
