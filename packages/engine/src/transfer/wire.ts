import { createCipheriv } from 'node:crypto';

/**
 * The wire of a transfer. Everything but payload and text is a head of four little-endian u32 words:
 *
 * - request  `[MAGIC, kind, value, id bytes]`, then the transfer id in UTF-8;
 * - answer   `[MAGIC, status, a, b]`; with `refused`, `a` bytes of text follow; with `probe`, `a` bytes of noise; with `fetch`,
 *   `a` blocks of `b` bytes, from the one that was asked for to the last. `waiting`, once or every few seconds, says that others
 *   are served first and the answer follows; `busy`, that there is no room to wait either;
 * - block    `[position, bytes, hash low, hash high]`, the bytes, and 16 bytes of digest over head and bytes.
 *
 * After the last block the receiver sends a request `received` with the number of blocks, and the sender answers `done`.
 */
export const HEAD_BYTES = 16;
export const DIGEST_BYTES = 16;
/** "BKV1" */
export const MAGIC = 0x31564b42;
export const REQUEST = { probe: 1, fetch: 2, received: 3 } as const;
export const STATUS = { probe: 1, fetch: 2, refused: 3, done: 4, waiting: 5, busy: 6 } as const;
/** Of a transfer id, as in the transfer parameters, and of the text of a refusal. */
export const MAX_TEXT_BYTES = 1_024;
/** Four seconds of a link of 100 Mbit/s: enough for any link's rate to show, too little to fill it for long. */
export const MAX_PROBE_BYTES = 50_000_000;

export type Head = readonly [number, number, number, number];

export function writeHead(head: Head): Buffer {
  const bytes = Buffer.allocUnsafe(HEAD_BYTES);
  head.forEach((word, at) => bytes.writeUInt32LE(word, at * 4));
  return bytes;
}

/** The head in the first bytes of `bytes`. */
export function readHead(bytes: Buffer): Head {
  return [
    bytes.readUInt32LE(0),
    bytes.readUInt32LE(4),
    bytes.readUInt32LE(8),
    bytes.readUInt32LE(12),
  ];
}

export interface Digest {
  update(bytes: Uint8Array): void;
  /** The 16 bytes; the digest is used up. */
  finish(): Buffer;
}

const DIGEST_KEY = Buffer.from('busbar-kv-digest');
const DIGEST_NONCE = Buffer.alloc(12);

/**
 * Digest of a block as it goes over the wire: GMAC (the tag of AES-128-GCM without text) under a fixed key. Against corruption it
 * is worth as much as a cryptographic hash of 128 bits, and several times faster than any on processors with carry-less
 * multiplication; against an attacker on the wire it is worth nothing, and need not be.
 */
export function createDigest(): Digest {
  const cipher = createCipheriv('aes-128-gcm', DIGEST_KEY, DIGEST_NONCE);
  return {
    update: (bytes) => {
      cipher.setAAD(bytes);
    },
    finish: () => {
      cipher.final();
      return cipher.getAuthTag();
    },
  };
}

/** `host:port`, an IPv6 address in brackets. */
export function formatEndpoint(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Undefined for what is not `host:port`. */
export function parseEndpoint(endpoint: string): { host: string; port: number } | undefined {
  const match = /^(?:\[([^\]]+)\]|([^\s:/]+)):(\d{1,5})$/.exec(endpoint);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port };
}
