import type { TransferInfo, WorkerInfo } from '@busbar/protocol';

/**
 * Why KV that `prefill` computes is of no use to `decode`, in words that name what differs; undefined when the two make a pair. Blocks
 * carry no description of themselves: an engine that is given those of another layout or version computes nonsense, or dies.
 */
export function pairRefusal(prefill: WorkerInfo, decode: WorkerInfo): string | undefined {
  const [from, to] = [prefill.transfer, decode.transfer];
  if (from === undefined) return 'the prefill worker announces no way to exchange KV';
  if (to === undefined) return 'the decode worker announces no way to exchange KV';
  const differences: string[] = [];
  const compare = (name: string, at: string | number, and: string | number): void => {
    if (at !== and) differences.push(`${name} is ${at} at prefill and ${and} at decode`);
  };
  compare('transfer protocol', from.protocol, to.protocol);
  compare('block size', prefill.blockSize, decode.blockSize);
  compare('KV bytes per token', from.kvBytesPerToken, to.kvBytesPerToken);
  for (const name of revisionNames(from, to)) {
    compare(`revision ${name}`, from.revision[name] ?? 'unset', to.revision[name] ?? 'unset');
  }
  return differences.length === 0 ? undefined : differences.join('; ');
}

function revisionNames(from: TransferInfo, to: TransferInfo): string[] {
  const names = new Set([...Object.keys(from.revision), ...Object.keys(to.revision)]);
  return [...names].toSorted();
}
