import { messageOf } from '@busbar/base';
import { jetstreamManager } from '@nats-io/jetstream';
import { AuthorizationError, type NatsConnection } from '@nats-io/nats-core';
import { BusError } from './errors.ts';
import type { BusErrorListener } from './guard.ts';
import { NatsBus } from './nats-bus.ts';
import { connect } from './nats-transport.ts';
import type { Bus } from './port.ts';

export interface NatsOptions {
  /** `nats://[user:password@]host[:port]`, `tls://` for TLS; several servers of one cluster separated by commas. */
  url: string;
  /** Shown in the server's list of connections. */
  name: string;
  /** Hears of errors without a caller. Without it they become process warnings. */
  onError?: BusErrorListener;
  /** Bytes that `publish` keeps while the connection is broken (default 8 MiB). */
  bufferBytes?: number;
  /** Copies of each bucket in a NATS cluster (default 1). */
  replicas?: number;
}

const DEFAULT_BUFFER_BYTES = 8 * 1024 * 1024;
/** Long enough for a server under load to greet, short enough to try again soon when it is frozen. */
const CONNECT_TIMEOUT_MS = 3_000;
/** Three of these without an answer, and the connection counts as dead. */
const PING_INTERVAL_MS = 2_000;
/** Major and minor number of the oldest server: keys with a time to live of their own came with it. */
export const OLDEST_NATS_SERVER = [2, 11] as const;

const WAYS =
  'Start one with `npm start`, which brings its own, set BUSBAR_NATS_URL to one that runs, ' +
  'or run `nats-server -js` (2.11 or newer).';

/**
 * Waits between two attempts to reconnect: short, since a restart takes less than a second, and spread, so that a
 * thousand processes do not come at once. The longest wait bounds how late a process notices that the server is back.
 */
function reconnectDelayMs(): number {
  return 100 + Math.floor(Math.random() * 400);
}

interface Target {
  servers: string[];
  /** For messages: without credentials. */
  shown: string;
  user: string | undefined;
  pass: string | undefined;
  tls: boolean;
}

function parseUrl(url: string): Target {
  const target: Target = { servers: [], shown: '', user: undefined, pass: undefined, tls: false };
  for (const part of url.split(',')) {
    const text = part.trim();
    const parsed = URL.parse(text.includes('://') ? text : `nats://${text}`);
    if (parsed === null || !parsed.hostname || !/^(nats|tls):$/.test(parsed.protocol)) {
      throw new BusError(
        'BUS_UNREACHABLE',
        `"${text}" is not a NATS URL such as nats://127.0.0.1:4222`,
      );
    }
    target.servers.push(`${parsed.hostname}:${parsed.port || '4222'}`);
    if (parsed.username) target.user = decodeURIComponent(parsed.username);
    if (parsed.password) target.pass = decodeURIComponent(parsed.password);
    if (parsed.protocol === 'tls:') target.tls = true;
  }
  target.shown = target.servers.map((server) => `nats://${server}`).join(',');
  return target;
}

async function dial(target: Target, name: string): Promise<NatsConnection> {
  try {
    return await connect({
      servers: target.servers,
      name,
      ...(target.user === undefined ? {} : { user: target.user, pass: target.pass ?? '' }),
      ...(target.tls ? { tls: {} } : {}),
      timeout: CONNECT_TIMEOUT_MS,
      pingInterval: PING_INTERVAL_MS,
      maxPingOut: 2,
      maxReconnectAttempts: -1,
      reconnectDelayHandler: reconnectDelayMs,
      // A server that restarts may refuse logins for a moment; going on is right for a process that was let in once.
      ignoreAuthErrorAbort: true,
      noAsyncTraces: true,
    });
  } catch (error) {
    if (error instanceof AuthorizationError) {
      const text = `The NATS server at ${target.shown} refused the login; check the user and password in BUSBAR_NATS_URL.`;
      throw new BusError('BUS_UNAUTHORIZED', text, error);
    }
    const text = `No NATS server answers at ${target.shown} (${messageOf(error) || 'no answer in time'}). ${WAYS}`;
    throw new BusError('BUS_UNREACHABLE', text, error);
  }
}

function checkVersion(connection: NatsConnection, shown: string): void {
  const version = connection.info?.version ?? 'unknown';
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [oldestMajor, oldestMinor] = OLDEST_NATS_SERVER;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return;
  const text = `The NATS server at ${shown} is version ${version}; Busbar needs ${OLDEST_NATS_SERVER.join('.')} or newer, for keys that expire.`;
  throw new BusError('BUS_SERVER_TOO_OLD', text);
}

async function checkJetStream(connection: NatsConnection, shown: string): Promise<void> {
  try {
    await jetstreamManager(connection);
  } catch (error) {
    const text = `The NATS server at ${shown} runs without JetStream, which keeps leases and model cards. Start it with -js. (${messageOf(error)})`;
    throw new BusError('BUS_NO_JETSTREAM', text, error);
  }
}

/**
 * Connects to NATS and checks that the server can do what Busbar needs. Rejects with BUS_UNREACHABLE,
 * BUS_UNAUTHORIZED, BUS_SERVER_TOO_OLD or BUS_NO_JETSTREAM, each with a sentence for the user. Afterwards the bus
 * reconnects by itself, without end.
 */
export async function connectNats(options: NatsOptions): Promise<Bus> {
  const target = parseUrl(options.url);
  const connection = await dial(target, options.name);
  try {
    checkVersion(connection, target.shown);
    await checkJetStream(connection, target.shown);
  } catch (error) {
    await connection.close();
    throw error;
  }
  return new NatsBus(connection, {
    bufferBytes: options.bufferBytes ?? DEFAULT_BUFFER_BYTES,
    replicas: options.replicas ?? 1,
    onError: options.onError,
  });
}
