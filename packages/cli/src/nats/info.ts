import { connect } from 'node:net';
import { z } from 'zod';

const infoSchema = z.object({
  server_id: z.string(),
  server_name: z.string().optional(),
  version: z.string(),
  jetstream: z.boolean().optional(),
  max_payload: z.number().optional(),
});

/** What a NATS server says of itself to everyone who connects. */
export interface NatsInfo {
  serverId: string;
  serverName: string;
  version: string;
  hasJetStream: boolean;
  maxPayloadBytes: number;
}

const INFO_BYTES_MAX = 65_536;
const DEFAULT_PORT = 4222;

/** Host and port of the first URL in a list such as `nats://a:4222,nats://b:4222`. */
export function natsAddress(urls: string): { host: string; port: number } {
  const first = urls.split(',')[0]!.trim();
  const url = new URL(first.includes('://') ? first : `nats://${first}`);
  return {
    host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1',
    port: url.port === '' ? DEFAULT_PORT : Number(url.port),
  };
}

/** Connects, reads the INFO line and hangs up. Rejects when nothing answers as a NATS server within `timeoutMs`. */
export async function readNatsInfo(urls: string, timeoutMs: number): Promise<NatsInfo> {
  const { host, port } = natsAddress(urls);
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    let text = '';
    const fail = (error: Error): void => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(timeoutMs, () =>
      fail(new Error(`${host}:${port} did not answer within ${timeoutMs} ms`)),
    );
    socket.once('error', fail);
    socket.once('close', () => reject(new Error(`${host}:${port} closed the connection`)));
    socket.on('data', (bytes) => {
      text += bytes.toString('utf8');
      if (text.length > INFO_BYTES_MAX) fail(new Error(`${host}:${port} is not a NATS server`));
      const end = text.indexOf('\r\n');
      if (end < 0) return;
      try {
        resolve(parseNatsInfo(text.slice(0, end)));
        socket.destroy();
      } catch (error) {
        fail(new Error(`${host}:${port} is not a NATS server`, { cause: error }));
      }
    });
  });
}

/** Reads the line `INFO {…}`. Throws on anything else. */
export function parseNatsInfo(line: string): NatsInfo {
  if (!line.startsWith('INFO ')) throw new Error('no INFO line');
  const info = infoSchema.parse(JSON.parse(line.slice('INFO '.length)));
  return {
    serverId: info.server_id,
    serverName: info.server_name ?? info.server_id,
    version: info.version,
    hasJetStream: info.jetstream === true,
    maxPayloadBytes: info.max_payload ?? 0,
  };
}

/** Whether a version such as `2.11.3` or `2.12.0-beta.1` is at least `major.minor`. */
export function isVersionAtLeast(version: string, major: number, minor: number): boolean {
  const [have = 0, haveMinor = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  return have > major || (have === major && haveMinor >= minor);
}
