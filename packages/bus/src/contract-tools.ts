import assert from 'node:assert/strict';
import type { BucketChange, BucketEntry, Bus } from './port.ts';

/** Two buses on one network, for one run of the contract. */
export interface BusPair {
  a: Bus;
  b: Bus;
  /** Breaks the connections of both, as a server that is killed does; the network is down until `restore`. */
  disrupt(): Promise<void>;
  restore(): Promise<void>;
  dispose(): Promise<void>;
  /** What the listener of errors of `b` has heard. */
  errors: unknown[];
}

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
export const text = (data: Uint8Array): string => new TextDecoder().decode(data);
export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));
export const byKey = (a: BucketEntry, b: BucketEntry): number => (a.key < b.key ? -1 : 1);

export async function until(predicate: () => boolean, ms: number, what: string): Promise<void> {
  const deadline = performance.now() + ms;
  while (!predicate()) {
    assert.ok(performance.now() < deadline, `${what}: not within ${ms} ms`);
    await sleep(5);
  }
}

/** Listens on `subject` of `bus`, with texts collected in order. */
export async function collect(bus: Bus, subject: string, queue?: string): Promise<string[]> {
  const seen: string[] = [];
  bus.subscribe(subject, (message) => seen.push(text(message.data)), queue ? { queue } : {});
  await bus.flush();
  return seen;
}

export const code =
  (expected: string) =>
  (error: unknown): boolean => {
    assert.equal((error as { code?: string }).code, expected);
    return true;
  };

/** Says what a watch told, in one line per change. */
export function describeChange(change: BucketChange): string {
  if (change.kind === 'put') return `put ${change.key}=${text(change.value)}`;
  if (change.kind === 'gone') return `gone ${change.key}`;
  return `snapshot ${[...change.keys].toSorted().join(',')}`;
}
