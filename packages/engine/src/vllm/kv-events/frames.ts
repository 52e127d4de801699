const SEQUENCE_BYTES = 8;
const MAX_SEQUENCE = BigInt(Number.MAX_SAFE_INTEGER);
/** Ends a replay in place of a sequence number. */
const END_SEQUENCE = 0xffff_ffff_ffff_ffffn;

export interface SequencedPayload {
  sequence: number;
  payload: Uint8Array;
}

/** Frames of a published message: topic, number, payload. Undefined for anything else. */
export function readPublished(frames: readonly Uint8Array[]): SequencedPayload | undefined {
  const [, number, payload] = frames;
  if (frames.length !== 3 || number === undefined || payload === undefined) return undefined;
  const sequence = readSequence(number);
  return sequence === undefined || sequence > MAX_SEQUENCE
    ? undefined
    : { sequence: Number(sequence), payload };
}

/**
 * Frames of one answer to a replay request, as a DEALER gets it: an empty one, from vLLM 0.26 on the topic, number, payload.
 * Undefined for anything else.
 */
export function readReplayed(frames: readonly Uint8Array[]): SequencedPayload | 'end' | undefined {
  const [empty, ...rest] = frames;
  if (empty?.length !== 0 || rest.length < 2 || rest.length > 3) return undefined;
  const number = rest.at(-2);
  const payload = rest.at(-1);
  if (number === undefined || payload === undefined) return undefined;
  const sequence = readSequence(number);
  if (sequence === END_SEQUENCE && payload.length === 0) return 'end';
  return sequence === undefined || sequence > MAX_SEQUENCE
    ? undefined
    : { sequence: Number(sequence), payload };
}

/** Frames that ask for everything from `sequence` on. */
export function replayRequest(sequence: number): Uint8Array[] {
  const number = new Uint8Array(SEQUENCE_BYTES);
  new DataView(number.buffer).setBigUint64(0, BigInt(sequence));
  return [new Uint8Array(), number];
}

function readSequence(bytes: Uint8Array): bigint | undefined {
  if (bytes.length !== SEQUENCE_BYTES) return undefined;
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getBigUint64(0);
}
