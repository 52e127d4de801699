import { OLDEST_NATS_SERVER } from '@busbar/bus';
import { limit } from '@busbar/protocol';
import { commandFor } from '../context.ts';
import { isVersionAtLeast } from '../nats/info.ts';
import { count } from '../terminal/terminal.ts';
import type { Facts } from './facts.ts';
import type { Finding } from './finding.ts';
import { judgeCache, judgeProbe } from './judge-cache.ts';
import { judgeHost } from './judge-host.ts';
import { judgeKvEvents } from './judge-kv.ts';
import { judgeProcesses } from './judge-processes.ts';
import { judgeSplit } from './judge-split.ts';
import { judgeTransfer } from './judge-transfer.ts';

/** All findings, in the order of the tree. */
export function judge(facts: Facts): Finding[] {
  return [
    ...judgeBus(facts),
    ...judgeProcesses(facts),
    ...judgeKvEvents(facts),
    ...judgeProbe(facts),
    ...judgeCache(facts),
    ...judgeTransfer(facts),
    ...judgeSplit(facts),
    ...judgeHost(facts),
    ...judgeMachine(facts),
    ...judgePatience(facts),
  ];
}

function judgeBus({ nats, natsUrl, namespace, stack }: Facts): Finding[] {
  const group = 'bus';
  if ('error' in nats) {
    const [down, up] = ['down', 'up'].map((it) => `"${commandFor(namespace, `busbar ${it}`)}"`);
    const isStarted = stack.processes.some((view) => view.isManaged);
    return [
      {
        group,
        name: 'NATS reachable',
        verdict: 'fail',
        detail: nats.error,
        advice: `start ${isStarted ? `the stack again (${down}, then ${up})` : `a stack (${up})`}, or set BUSBAR_NATS_URL to a server that runs`,
      },
    ];
  }
  const isNew = isVersionAtLeast(nats.version, ...OLDEST_NATS_SERVER);
  const version: Finding = {
    group,
    name: 'NATS reachable',
    verdict: isNew ? 'ok' : 'fail',
    detail: `nats-server ${nats.version} at ${natsUrl}`,
  };
  if (!isNew)
    version.advice = `use nats-server ${OLDEST_NATS_SERVER.join('.')} or newer: leases need a time to live per key`;
  const jetStream: Finding = {
    group,
    name: 'JetStream',
    verdict: nats.hasJetStream ? 'ok' : 'fail',
    detail: nats.hasJetStream ? 'on' : 'off',
  };
  if (!nats.hasJetStream) jetStream.advice = 'start nats-server with -js and a store folder';
  const wanted = limit('messageBytes');
  if (nats.maxPayloadBytes >= wanted) return [version, jetStream];
  return [
    version,
    jetStream,
    {
      group,
      name: 'payload',
      verdict: 'fail',
      detail: `max_payload is ${count(nats.maxPayloadBytes)} bytes`,
      advice: `set max_payload of nats-server to at least ${count(wanted)}`,
    },
  ];
}

/** A socket for each client, and as many again for NATS, logs and the admin port. */
const OPEN_FILES_MIN = 2 * 4_096;

function judgeMachine({ openFilesMax }: Facts): Finding[] {
  if (openFilesMax === undefined) return [];
  const isEnough = openFilesMax >= OPEN_FILES_MIN;
  const finding: Finding = {
    group: 'machine',
    name: 'open files',
    verdict: isEnough ? 'ok' : 'warn',
    detail: `${count(openFilesMax)} per process`,
  };
  if (!isEnough) {
    finding.advice = `raise "ulimit -n" to ${count(OPEN_FILES_MIN)}: each client of a frontend holds one`;
  }
  return [finding];
}

/** What hung while it was looked at: the checks above rest on less than they should. */
function judgePatience({ givenUp }: Facts): Finding[] {
  return givenUp.map((what) => ({
    group: 'this diagnosis',
    name: 'given up',
    verdict: 'fail',
    detail: what,
    advice: 'whatever it asked is stuck; the checks above saw less than there is',
  }));
}
