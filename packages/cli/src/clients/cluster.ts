import { hostname } from 'node:os';
import type { Bus } from '@busbar/bus';
import {
  bucketNames,
  createSubjects,
  decodeInstance,
  decodeLinkRecord,
  decodeModelCard,
  decodeOrSkip,
  decodeWorkerLoad,
  type Instance,
  type LinkRecord,
  lastToken,
  type ModelCard,
  type WorkerLoad,
} from '@busbar/protocol';
import { pause } from '../wait.ts';

/** What a namespace looks like on the bus at one moment. */
export interface Cluster {
  /** Leases by id. */
  instances: Map<string, Instance>;
  cards: ModelCard[];
  /** The last heartbeat of each worker that sent one while we listened. */
  loads: Map<string, WorkerLoad>;
}

/** All leases of a namespace. Values that do not parse are left out: they are of another version. */
export async function readInstances(bus: Bus, namespace: string): Promise<Map<string, Instance>> {
  const bucket = await bus.bucket(bucketNames(namespace).instances);
  const instances = new Map<string, Instance>();
  for (const entry of await bucket.entries()) {
    const instance = decodeOrSkip(decodeInstance, entry.value);
    if (instance !== undefined) instances.set(instance.id, instance);
  }
  return instances;
}

/** What decode workers measured of the ways into them. */
export async function readLinks(bus: Bus, namespace: string): Promise<LinkRecord[]> {
  const bucket = await bus.bucket(bucketNames(namespace).links);
  const entries = await bucket.entries();
  return entries.flatMap((entry) => decodeOrSkip(decodeLinkRecord, entry.value) ?? []);
}

async function readCards(bus: Bus, namespace: string): Promise<ModelCard[]> {
  const bucket = await bus.bucket(bucketNames(namespace).models);
  const entries = await bucket.entries();
  return entries.flatMap((entry) => decodeOrSkip(decodeModelCard, entry.value) ?? []);
}

/** Reads leases and cards, and listens `listenMs` for the heartbeats of workers. */
export async function observeCluster(
  bus: Bus,
  namespace: string,
  listenMs: number,
): Promise<Cluster> {
  const loads = new Map<string, WorkerLoad>();
  const subscription = bus.subscribe(createSubjects(namespace).loadAll, (message) => {
    const load = decodeOrSkip(decodeWorkerLoad, message.data);
    if (load !== undefined) loads.set(lastToken(message.subject), load);
  });
  try {
    const [instances, cards] = await Promise.all([
      readInstances(bus, namespace),
      readCards(bus, namespace),
      pause(listenMs),
    ]);
    return { instances, cards, loads };
  } finally {
    subscription.unsubscribe();
  }
}

/** Whether a lease belongs to a process of this machine. */
export function isLocal(instance: Instance): boolean {
  return instance.host === hostname();
}
