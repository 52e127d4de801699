import type { Instance, WorkerInfo, WorkerLoad } from '@busbar/protocol';
import type { ReadinessBody, RouterWorker } from '../clients/admin-pages.ts';
import type { Facts } from './facts.ts';

/** A decode worker of the mock engine. */
export const decodeInfo: WorkerInfo = {
  model: 'm',
  engine: 'mock',
  engineVersion: '1',
  blockSize: 16,
  kvBlocks: 926,
  role: 'decode',
  dpRanks: 1,
  contextTokens: 4096,
  maxRunning: 8,
  kvEvents: true,
  prefillTokensPerMs: 1,
  decodeStepMs: 1,
};

/** A lease. */
export function instanceOf(role: Instance['role'], id: string, worker?: WorkerInfo): Instance {
  const base = { protocol: 1, epoch: 1, pid: 1, host: 'h', startedAt: '', state: 'ready' } as const;
  return { ...base, role, id, ...(worker === undefined ? {} : { worker }) };
}

/** Its last heartbeat. */
export const heartbeat: WorkerLoad = {
  epoch: 1,
  state: 'ready',
  running: 0,
  waiting: 0,
  waitingPrefillTokens: 0,
  freeBlocks: 800,
  activeBlocks: 0,
  kvBlocks: 926,
  decodeStepMs: 1,
  prefillTokensPerMs: 1,
  kvSequence: 5,
  storedBlocksTotal: 100,
};

const ready: ReadinessBody = { status: 'ready', checks: [] };
/** What the router believes of it. */
export const workerSeen: RouterWorker = {
  workerId: 'd',
  truth: 'events',
  reason: 'events arrive',
  indexedBlocks: 100,
  expectedCachedTokensTotal: 0,
  reportedCachedTokensTotal: 0,
};

/** A healthy stack of one frontend, router and worker. */
export function facts(changes: Partial<Facts> = {}): Facts {
  const process = (role: 'frontend' | 'router' | 'decode', id: string) =>
    ({ role, id, pid: 1, state: 'ready', isManaged: true, logFile: `/l/${id}.log` }) as const;
  return {
    namespace: 'ns',
    natsUrl: 'nats://n:1',
    policy: 'predictive',
    disaggregation: undefined,
    nats: {
      serverId: 's',
      serverName: 's',
      version: '2.15.1',
      hasJetStream: true,
      maxPayloadBytes: 1_048_576,
    },
    stack: {
      namespace: 'ns',
      url: 'http://u',
      natsUrl: 'nats://n:1',
      processes: [
        process('frontend', 'f'),
        process('router', 'r'),
        {
          ...process('decode', 'd'),
          kvBlocks: 926,
          blockSize: 16,
          freeBlocks: 800,
          activeBlocks: 0,
        },
      ],
    },
    cluster: {
      instances: new Map([
        ['f', instanceOf('frontend', 'f')],
        ['r', instanceOf('router', 'r')],
        ['d', instanceOf('decode', 'd', decodeInfo)],
      ]),
      cards: [],
      loads: new Map([['d', heartbeat]]),
    },
    readiness: new Map([
      ['f', ready],
      ['r', ready],
      ['d', ready],
    ]),
    routerWorkers: new Map([['r', [workerSeen]]]),
    routerLinks: new Map(),
    probeUrl: 'http://u',
    probe: { promptTokens: 600, cachedTokens: [0, 592], ttftMs: [90, 20] },
    heardBatches: new Map([['d', 2]]),
    storedAfter: new Map([['d', 137]]),
    links: [],
    host: { findings: [], hasModel: false },
    openFilesMax: 20_000,
    givenUp: [],
    ...changes,
  };
}
