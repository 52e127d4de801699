import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';
import { messageOf } from '@busbar/base';
import type * as Zmq from 'zeromq';
import { readReplayed, replayRequest, type SequencedPayload } from './frames.ts';
import type { KvEventSource } from './port.ts';

/** Between two answers. The publisher looks for requests at least ten times a second, unless it is busy with a long step. */
const ANSWER_LIMIT_MS = 2_000;
/** For all answers: ten thousand messages take well below a second on a loopback. */
const REPLAY_LIMIT_MS = 10_000;
/** Messages that wait while a replay runs; as many as vLLM keeps for a slow subscriber. Beyond it they are dropped, which shows as a gap. */
const QUEUED_MESSAGES = 100_000;
/** A peer that says nothing for this long is taken for gone. */
const HEARTBEAT_MS = 5_000;
/** Below the ports that systems give out by themselves, so that nothing takes a port between our look and the engine's start. */
const FIRST_PORT = 20_000;
const LAST_PORT = 32_000;
const PORT_TRIES = 50;

export type ZmqModule = typeof Zmq;

/** The native module, loaded when KV events are first wanted. */
export function loadZmq(): Promise<ZmqModule> {
  return import('zeromq');
}

/** One socket for each rank that listens on its own of consecutive ports, and as many free ports after them. */
export async function listen(
  zmq: ZmqModule,
  ranks: number,
  topic: string,
): Promise<{ sockets: Zmq.Subscriber[]; port: number; replayPort: number }> {
  let reason = '';
  for (let attempt = 0; attempt < PORT_TRIES; attempt++) {
    const port = randomInt(FIRST_PORT, LAST_PORT - 2 * ranks);
    const sockets: Zmq.Subscriber[] = [];
    try {
      for (let rank = 0; rank < ranks; rank++) {
        const socket = subscriber(zmq, topic);
        sockets.push(socket);
        await socket.bind(loopback(port + rank));
      }
      for (let rank = 0; rank < ranks; rank++) await probePort(port + ranks + rank);
      return { sockets, port, replayPort: port + ranks };
    } catch (error) {
      reason = messageOf(error);
      for (const socket of sockets) socket.close();
    }
  }
  throw new Error(`no free ports for KV events after ${PORT_TRIES} tries: ${reason}`);
}

/** A socket that hears an engine which runs already. */
export async function attach(
  zmq: ZmqModule,
  { endpoint, tryBind }: Pick<KvEventSource, 'endpoint' | 'tryBind'>,
  topic: string,
): Promise<Zmq.Subscriber> {
  const socket = subscriber(zmq, topic);
  if (tryBind && (await canBind(socket, endpoint))) return socket;
  socket.connect(endpoint);
  return socket;
}

export function loopback(port: number): string {
  return `tcp://127.0.0.1:${port}`;
}

/** See `Replay`: one request over a socket of its own, so that late answers of another cannot mix in. */
export async function replayOverDealer(
  zmq: ZmqModule,
  endpoint: string,
  from: number,
  take: (answer: SequencedPayload) => boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (signal.aborted) return 'closed';
  const dealer = new zmq.Dealer({
    linger: 0,
    receiveTimeout: ANSWER_LIMIT_MS,
    sendTimeout: ANSWER_LIMIT_MS,
    receiveHighWaterMark: QUEUED_MESSAGES,
  });
  const close = (): void => dealer.close();
  const limit = setTimeout(close, REPLAY_LIMIT_MS);
  signal.addEventListener('abort', close, { once: true });
  try {
    dealer.connect(endpoint);
    await dealer.send(replayRequest(from));
    for (;;) {
      const answer = readReplayed(await dealer.receive());
      if (answer === 'end') return undefined;
      if (answer === undefined) return 'an answer of an unknown form';
      if (!take(answer)) return undefined;
    }
  } catch (error) {
    return `no answer within ${ANSWER_LIMIT_MS} ms (${messageOf(error)})`;
  } finally {
    clearTimeout(limit);
    signal.removeEventListener('abort', close);
    close();
  }
}

function subscriber(zmq: ZmqModule, topic: string): Zmq.Subscriber {
  const socket = new zmq.Subscriber({
    linger: 0,
    receiveHighWaterMark: QUEUED_MESSAGES,
    heartbeatInterval: HEARTBEAT_MS,
    heartbeatTimeout: HEARTBEAT_MS,
  });
  socket.subscribe(topic);
  return socket;
}

async function canBind(socket: Zmq.Subscriber, endpoint: string): Promise<boolean> {
  try {
    await socket.bind(endpoint);
    return true;
  } catch {
    // The engine holds the port itself, or the address is another host's.
    return false;
  }
}

function probePort(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => server.close(() => resolve()));
  });
}
