import { readdirSync, readFileSync } from 'node:fs';

/** All processes below `pid`, at any depth, with the names that they show. Linux only. */
export function processesBelow(pid: number): { pid: number; name: string }[] {
  const all = readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((entry) => {
      const parent = parentOf(Number(entry));
      return parent === undefined ? [] : [{ pid: Number(entry), parent }];
    });
  const below = new Set([pid]);
  for (let size = 0; size !== below.size; ) {
    size = below.size;
    for (const { pid: own, parent } of all) if (below.has(parent)) below.add(own);
  }
  below.delete(pid);
  return [...below].map((own) => ({ pid: own, name: nameOf(own) }));
}

/** False for a process that is gone, or that only waits to be counted by its parent. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

function parentOf(pid: number): number | undefined {
  try {
    const match = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return match?.[1] === undefined ? undefined : Number(match[1]);
  } catch {
    return undefined;
  }
}

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
  } catch {
    return '';
  }
}
