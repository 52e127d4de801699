import type { PackedVocabulary } from '../vocabulary.ts';
import type { SplitStep } from './split.ts';

/** All that byte-level BPE needs, in a form that threads share: typed arrays over shared memory and patterns. */
export interface FastModel {
  readonly vocabulary: PackedVocabulary;
  readonly mergeSlots: Int32Array;
  /** The token id of every single byte. */
  readonly byteIds: Uint32Array;
  readonly splitSteps: readonly SplitStep[];
  readonly normalizesNfc: boolean;
  /** Slots of a TokenIndex when a piece that is a token is never merged (`ignore_merges`). */
  readonly wholePieceSlots: Int32Array | undefined;
}
