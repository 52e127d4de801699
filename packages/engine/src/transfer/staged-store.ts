import { assert } from '@busbar/base';
import type { StagedEnd } from '../port.ts';
import type { StagedFetch, StagedSource } from './types.ts';

/** A prompt whose KV waits for a decode worker. */
export interface StagedPrompt {
  key: number;
  transferId: string;
  /** Two words for each block, full or not. */
  hashes: Uint32Array;
  blockBytes: number;
}

interface Entry {
  prompt: StagedPrompt;
  deadline: NodeJS.Timeout;
  isOverdue: boolean;
  /** Ends the connection of the fetch in progress. */
  closeFetch: (() => void) | undefined;
  isFetching: boolean;
}

/**
 * The staged prompts of an engine, each with its deadline. One fetch of a prompt at a time; one that began in time may run over the
 * deadline, and one that breaks leaves the prompt to another try until then.
 */
export class StagedStore implements StagedSource {
  readonly #stagedMs: number;
  readonly #onEnd: (key: number, how: StagedEnd) => void;
  readonly #entries = new Map<string, Entry>();
  readonly #ids = new Map<number, string>();

  /** `onEnd` is called once for each prompt that was added. */
  constructor(stagedMs: number, onEnd: (key: number, how: StagedEnd) => void) {
    this.#stagedMs = stagedMs;
    this.#onEnd = onEnd;
  }

  add(prompt: StagedPrompt): void {
    assert(!this.#entries.has(prompt.transferId), 'transfer ids are unique');
    const deadline = setTimeout(() => this.#onDeadline(prompt.transferId), this.#stagedMs);
    const state = { isOverdue: false, closeFetch: undefined, isFetching: false };
    this.#entries.set(prompt.transferId, { prompt, deadline, ...state });
    this.#ids.set(prompt.key, prompt.transferId);
  }

  has(key: number): boolean {
    return this.#ids.has(key);
  }

  open(transferId: string): StagedFetch | string {
    const entry = this.#entries.get(transferId);
    if (entry === undefined) {
      return 'no such KV is staged here: it was fetched or given up, or its time ran out';
    }
    if (entry.isFetching) return 'this KV is being fetched already';
    const { hashes, blockBytes } = entry.prompt;
    entry.isFetching = true;
    return {
      hashes,
      blockBytes,
      onGone: (close) => {
        entry.closeFetch = close;
      },
      end: (outcome) => this.#onFetchEnd(entry, outcome),
    };
  }

  /** Gives up what request `key` staged; false when it staged nothing. */
  release(key: number): boolean {
    const entry = this.#entries.get(this.#ids.get(key) ?? '');
    if (entry === undefined) return false;
    this.#end(entry, 'released');
    return true;
  }

  releaseAll(): void {
    for (const key of this.#ids.keys()) this.release(key);
  }

  #onDeadline(transferId: string): void {
    const entry = this.#entries.get(transferId);
    if (entry === undefined) return;
    entry.isOverdue = true;
    if (!entry.isFetching) this.#end(entry, 'expired');
  }

  #onFetchEnd(entry: Entry, outcome: 'received' | 'broken'): void {
    entry.isFetching = false;
    entry.closeFetch = undefined;
    if (this.#entries.get(entry.prompt.transferId) !== entry) return;
    if (outcome === 'received') this.#end(entry, 'fetched');
    else if (entry.isOverdue) this.#end(entry, 'expired');
  }

  #end(entry: Entry, how: StagedEnd): void {
    const { key, transferId } = entry.prompt;
    clearTimeout(entry.deadline);
    this.#entries.delete(transferId);
    this.#ids.delete(key);
    entry.closeFetch?.();
    this.#onEnd(key, how);
  }
}
