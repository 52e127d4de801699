import { AppError } from '@busbar/base';
import { z } from 'zod';
import { PROTOCOL_VERSION } from './names.ts';

export type ProtocolErrorCode =
  /** The bytes are no message of this kind. */
  | 'PROTOCOL_BAD_FRAME'
  /** The sender speaks another version of the contract. */
  | 'PROTOCOL_VERSION';

/** A message that does not follow this contract. Receivers count and drop it; they never throw it further. */
export class ProtocolError extends AppError<ProtocolErrorCode> {}

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });
const PREFIX_BYTES = 8;

/** A JSON header with raw 32-bit words behind it (token ids or block hashes). */
export interface Frame {
  header: unknown;
  words: Uint32Array;
}

const NO_WORDS = new Uint32Array(0);

/**
 * Layout, little-endian: u32 version, u32 header bytes, the header as JSON padded with spaces to a multiple of four,
 * then the words.
 */
export function encodeFrame(header: unknown, words: Uint32Array = NO_WORDS): Uint8Array {
  const json = encoder.encode(JSON.stringify(header));
  const padded = (json.length + 3) & ~3;
  const bytes = new Uint8Array(PREFIX_BYTES + padded + words.byteLength);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, PROTOCOL_VERSION, true);
  view.setUint32(4, padded, true);
  bytes.set(json, PREFIX_BYTES);
  bytes.fill(0x20, PREFIX_BYTES + json.length, PREFIX_BYTES + padded);
  bytes.set(
    new Uint8Array(words.buffer, words.byteOffset, words.byteLength),
    PREFIX_BYTES + padded,
  );
  return bytes;
}

/** Reverses `encodeFrame`; `words` is a copy. Throws ProtocolError on anything else. */
export function decodeFrame(bytes: Uint8Array): Frame {
  if (bytes.length < PREFIX_BYTES) throw new ProtocolError('PROTOCOL_BAD_FRAME', 'frame too short');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  checkVersion(view.getUint32(0, true));
  const headerEnd = PREFIX_BYTES + view.getUint32(4, true);
  if (headerEnd > bytes.length || (bytes.length - headerEnd) % 4 !== 0) {
    throw new ProtocolError('PROTOCOL_BAD_FRAME', 'frame lengths do not agree');
  }
  try {
    return {
      header: JSON.parse(decoder.decode(bytes.subarray(PREFIX_BYTES, headerEnd))),
      words: copyWords(bytes, headerEnd, (bytes.length - headerEnd) / 4),
    };
  } catch (error) {
    throw new ProtocolError('PROTOCOL_BAD_FRAME', 'frame header is not JSON', { cause: error });
  }
}

export function checkVersion(version: number): void {
  if (version !== PROTOCOL_VERSION) {
    throw new ProtocolError(
      'PROTOCOL_VERSION',
      `frame of version ${version}, this is ${PROTOCOL_VERSION}`,
    );
  }
}

/** Copies `count` words from `byteOffset`: network buffers are not aligned, so they cannot be viewed in place. */
export function copyWords(bytes: Uint8Array, byteOffset: number, count: number): Uint32Array {
  const words = new Uint32Array(count);
  new Uint8Array(words.buffer).set(bytes.subarray(byteOffset, byteOffset + count * 4));
  return words;
}

/** JSON of raw bytes; `undefined` when it is none, which every schema refuses. */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(bytes));
  } catch {
    return undefined;
  }
}

/** Validates a decoded header. Throws ProtocolError, so that one catch covers every bad message. */
export function parse<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (!result.success) {
    throw new ProtocolError('PROTOCOL_BAD_FRAME', z.prettifyError(result.error), {
      cause: result.error,
    });
  }
  return result.data;
}

/** What `decode` makes of `bytes`, or undefined for bytes that do not follow this contract: of another version, or broken. */
export function decodeOrSkip<T>(
  decode: (bytes: Uint8Array) => T,
  bytes: Uint8Array,
): T | undefined {
  try {
    return decode(bytes);
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
