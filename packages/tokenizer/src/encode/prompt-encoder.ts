import type { EncodeFlags } from '../huggingface/hf-encoder.ts';

/** Turns whole texts into ids; at once where that is cheap, else through a thread. Takes well-formed text. */
export interface PromptEncoder {
  encode(
    text: string,
    flags: EncodeFlags,
    signal: AbortSignal | undefined,
  ): Uint32Array | Promise<Uint32Array>;
  close(): Promise<void>;
}
