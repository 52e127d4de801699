import { assert } from '@busbar/base';

/** Version of every wire shape in this package. A process refuses frames of another major version. */
export const PROTOCOL_VERSION = 1;

const TOKEN = /^[A-Za-z0-9_-]{1,512}$/;
/** A process id: a token of subjects and bucket keys. */
export const PROCESS_ID = /^[a-z0-9-]{1,40}$/;
/** A namespace: a token of subjects and a part of bucket names. */
export const NAMESPACE = /^[a-z0-9-]{1,32}$/;

/** True when `text` may stand as a process id in a subject: 1 to 40 of a-z, 0-9 and "-". */
export function isProcessId(text: string): boolean {
  return PROCESS_ID.test(text);
}

/**
 * Encodes text that a user chose (a model name, say) as one subject token and bucket key: letters, digits and "-"
 * stand for themselves, every other UTF-8 byte becomes `_XX` in hex. Injective; `decodeToken` reverses it.
 */
export function encodeToken(text: string): string {
  let token = '';
  for (const byte of new TextEncoder().encode(text)) {
    const char = String.fromCharCode(byte);
    token += /[A-Za-z0-9-]/.test(char)
      ? char
      : `_${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }
  return token;
}

/** The text that `encodeToken` encoded. */
export function decodeToken(token: string): string {
  const bytes: number[] = [];
  for (let i = 0; i < token.length; i++) {
    if (token[i] === '_') {
      bytes.push(Number.parseInt(token.slice(i + 1, i + 3), 16));
      i += 2;
    } else bytes.push(token.charCodeAt(i));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

/** Kinds of CloudEvents that Busbar publishes on `event.<kind>`. */
export const EVENT_KINDS = [
  'worker.joined',
  'worker.left',
  'worker.degraded',
  'worker.recovered',
  'router.demoted',
  'router.promoted',
  'request.completed',
  'kvtransfer.slow',
  'kvtransfer.failed',
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/** Every subject of one namespace. Nothing else in the project writes a subject as a literal. */
export interface Subjects {
  /** Request/reply, queue group `router`: frontend asks any router of `model` for a placement. */
  route(model: string): string;
  routeAll: string;
  /** The same of one router by its name. Frontends use it, so that a router that hangs gets nothing once its lease is gone. */
  routeTo(routerId: string): string;
  /** Frontends tell every router what became of a decision. */
  life(model: string): string;
  lifeAll: string;
  /** Frontend to routers: the decisions that it holds, against bookings whose end or whose answer was lost. */
  held(frontendId: string): string;
  heldAll: string;
  /** Request/ack: a frontend gives a request to the chosen worker. */
  work(workerId: string): string;
  /** Frontend to worker: stream ids to stop, or whose staged KV was fetched. With a reply: a sign of life, and how far its streams are. */
  cancel(workerId: string): string;
  /** Worker to frontend: one message per engine step. */
  tokens(frontendId: string, workerId: string): string;
  tokensTo(frontendId: string): string;
  /** Worker to routers: what entered and left its KV cache. */
  kv(workerId: string): string;
  kvAll: string;
  /** Request/reply: the whole block set of a worker, chunked. */
  kvSync(workerId: string): string;
  /** Worker to routers: heartbeat with its load. */
  load(workerId: string): string;
  loadAll: string;
  /** Integrations: CloudEvents JSON. */
  event(kind: EventKind): string;
  eventAll: string;
}

/** Queue group that all routers of a namespace share on `route.<model>`. */
export const ROUTER_QUEUE = 'router';

/** Builds the subjects of `namespace` (1 to 32 of a-z, 0-9, "-"). */
export function createSubjects(namespace: string): Subjects {
  assert(NAMESPACE.test(namespace), `namespace "${namespace}" is not 1 to 32 of a-z, 0-9 and "-"`);
  const root = `bb.${namespace}`;
  const id = (value: string): string => {
    assert(isProcessId(value), `"${value}" is not a process id`);
    return value;
  };
  const model = (name: string): string => {
    const token = encodeToken(name);
    assert(TOKEN.test(token), `model name "${name}" does not fit into a subject`);
    return token;
  };
  return {
    route: (name) => `${root}.route.${model(name)}`,
    routeAll: `${root}.route.*`,
    routeTo: (routerId) => `${root}.routeto.${id(routerId)}`,
    life: (name) => `${root}.life.${model(name)}`,
    lifeAll: `${root}.life.*`,
    held: (frontendId) => `${root}.held.${id(frontendId)}`,
    heldAll: `${root}.held.*`,
    work: (workerId) => `${root}.work.${id(workerId)}`,
    cancel: (workerId) => `${root}.cancel.${id(workerId)}`,
    tokens: (frontendId, workerId) => `${root}.tok.${id(frontendId)}.${id(workerId)}`,
    tokensTo: (frontendId) => `${root}.tok.${id(frontendId)}.*`,
    kv: (workerId) => `${root}.kv.${id(workerId)}`,
    kvAll: `${root}.kv.*`,
    kvSync: (workerId) => `${root}.kvsync.${id(workerId)}`,
    load: (workerId) => `${root}.load.${id(workerId)}`,
    loadAll: `${root}.load.*`,
    event: (kind) => `${root}.event.${kind}`,
    eventAll: `${root}.event.>`,
  };
}

/** The last token of a subject: the worker of `kv.*`, `load.*` and `tok.*.*`, the frontend of `held.*`, the encoded model of `route.*`. */
export function lastToken(subject: string): string {
  return subject.slice(subject.lastIndexOf('.') + 1);
}

/** Names of the JetStream KV buckets of a namespace. All of them are kept in files. */
export interface BucketNames {
  /** Leases of every process: key `<role>.<id>`, value `Instance`. */
  instances: string;
  /** Model cards: key `encodeToken(model)`, value `ModelCard`. */
  models: string;
  /** What decode workers measured of each way into them: key `linkKey`, value `LinkRecord`. */
  links: string;
}

export function bucketNames(namespace: string): BucketNames {
  assert(NAMESPACE.test(namespace), `namespace "${namespace}" is not 1 to 32 of a-z, 0-9 and "-"`);
  return {
    instances: `bb_${namespace}_instances`,
    models: `bb_${namespace}_models`,
    links: `bb_${namespace}_links`,
  };
}
