import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { createServer } from 'node:net';

/** Whether a server could listen there now, alone. */
export function isPortFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** A port that was free a moment ago. */
export function freePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host, port: 0, exclusive: true }, () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

/** The process that listens on a TCP port, where the system tells (Linux, own processes); undefined otherwise. */
export function portHolder(port: number): { pid: number; name: string } | undefined {
  const inodes = new Set([
    ...listeners('/proc/net/tcp', port),
    ...listeners('/proc/net/tcp6', port),
  ]);
  if (inodes.size === 0) return undefined;
  for (const entry of list('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    for (const fd of list(`/proc/${entry}/fd`)) {
      if (inodes.has(link(`/proc/${entry}/fd/${fd}`))) {
        return { pid: Number(entry), name: text(`/proc/${entry}/comm`).trim() };
      }
    }
  }
  return undefined;
}

const LISTEN = '0A';

/** `socket:[inode]` of every listener on `port` in a /proc/net table. */
function listeners(file: string, port: number): string[] {
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  const found: string[] = [];
  for (const row of text(file).split('\n').slice(1)) {
    const columns = row.trim().split(/\s+/);
    if (columns[1]?.endsWith(`:${wanted}`) && columns[3] === LISTEN)
      found.push(`socket:[${columns[9]}]`);
  }
  return found;
}

function text(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function link(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}
