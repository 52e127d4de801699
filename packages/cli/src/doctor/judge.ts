import { OLDEST_NATS_SERVER } from '@busbar/bus';
import { limit } from '@busbar/protocol';
import { commandFor } from '../context.ts';
import { isVersionAtLeast } from '../nats/info.ts';
import { count } from '../terminal.ts';
import type { Facts } from './facts.ts';
import type { Finding, Verdict } from './finding.ts';
import { judgeKvEvents } from './judge-kv.ts';

/** Prefix-aware policies: with the others a re-sent prompt may land anywhere. */
const PREFIX_POLICIES: readonly string[] = ['predictive', 'kv', 'approximate'];

/** All findings, in the order of the tree. */
export function judge(facts: Facts): Finding[] {
  return [
    ...judgeBus(facts),
    ...judgeProcesses(facts),
    ...judgeKvEvents(facts),
    ...judgeProbe(facts),
    ...judgeCache(facts),
    ...judgeMachine(facts),
  ];
}

function judgeBus({ nats, natsUrl, namespace }: Facts): Finding[] {
  const group = 'bus';
  if ('error' in nats) {
    return [
      {
        group,
        name: 'NATS reachable',
        verdict: 'fail',
        detail: nats.error,
        advice: `start the stack again ("${commandFor(namespace, 'busbar down')}", then "busbar up"), or set BUSBAR_NATS_URL to a server that runs`,
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

function judgeProcesses({ stack, cluster, readiness }: Facts): Finding[] {
  const group = 'processes';
  const services = stack.processes.filter((view) =>
    ['frontend', 'router', 'decode', 'prefill'].includes(view.role),
  );
  const findings: Finding[] = services.map((view) => {
    const finding = (verdict: Verdict, detail: string, advice?: string): Finding => ({
      group,
      name: view.id,
      verdict,
      detail,
      ...(advice === undefined ? {} : { advice }),
    });
    const log = view.logFile === undefined ? 'see its log' : `see ${view.logFile}`;
    if (view.state === 'exited') return finding('fail', `pid ${view.pid} has ended`, log);
    if (cluster !== undefined && !cluster.instances.has(view.id)) {
      return finding('fail', `pid ${view.pid} runs and holds no lease`, log);
    }
    const body = readiness.get(view.id);
    if (body === undefined) return finding('fail', 'its admin port does not answer', log);
    const reasons = body.checks
      .filter((check) => (body.status === 'unready' ? !check.ok : check.isDegraded === true))
      .map((check) => `${check.name}: ${check.detail}`)
      .join('; ');
    if (body.status === 'unready') return finding('fail', `not ready: ${reasons}`, log);
    if (body.status === 'degraded') {
      return finding('warn', `degraded: ${reasons}`, 'see the checks below');
    }
    return finding('ok', `ready, lease held, pid ${view.pid}`);
  });
  for (const role of ['frontend', 'router', 'decode'] as const) {
    if (services.some((view) => view.role === role && view.state !== 'exited')) continue;
    findings.push({
      group,
      name: role,
      verdict: 'fail',
      detail: 'none runs in this namespace',
      advice: `run "${commandFor(stack.namespace, 'busbar up')}"`,
    });
  }
  return findings;
}

function judgeProbe({ probe, policy, stack }: Facts): Finding[] {
  const group = 'prefix cache';
  const name = 'same prompt sent again';
  if (probe === undefined) return [];
  if ('error' in probe) {
    const advice = `the API at ${stack.url ?? 'the frontend'} must answer before anything else can be judged`;
    return [{ group, name, verdict: 'fail', detail: probe.error, advice }];
  }
  const best = Math.max(0, ...probe.cachedTokens.slice(1));
  const detail = `${count(best)} of ${count(probe.promptTokens)} prompt tokens came from the cache`;
  if (best >= probe.promptTokens / 2) return [{ group, name, verdict: 'ok', detail }];
  const isExpected = policy !== undefined && !PREFIX_POLICIES.includes(policy);
  return [
    {
      group,
      name,
      verdict: isExpected ? 'warn' : 'fail',
      detail,
      advice: isExpected
        ? `policy ${policy} does not look at prefixes; --policy predictive does`
        : 'the router does not find prefixes again: see KV events above, and whether the caches are full below',
    },
  ];
}

/** Free blocks below this share mean that every new prefix pushes an old one out. */
const FULL_RATIO = 0.02;
/** Prompt length that the advice counts in. */
const TYPICAL_PROMPT_TOKENS = 1_500;

function judgeCache({ stack }: Facts): Finding[] {
  const group = 'cache size';
  return stack.processes.flatMap((view): Finding[] => {
    const { kvBlocks, freeBlocks, activeBlocks = 0, blockSize } = view;
    if (kvBlocks === undefined || freeBlocks === undefined || blockSize === undefined) return [];
    const tokens = kvBlocks * blockSize;
    const reusable = kvBlocks - freeBlocks - activeBlocks;
    const detail = `${count(tokens)} tokens in ${count(kvBlocks)} blocks: ${count(reusable)} reusable, ${count(activeBlocks)} in use, ${count(freeBlocks)} free`;
    const base = { group, name: view.id, detail };
    if (freeBlocks > kvBlocks * FULL_RATIO) return [{ ...base, verdict: 'ok' }];
    const fit = Math.floor(tokens / TYPICAL_PROMPT_TOKENS);
    return [
      {
        ...base,
        verdict: 'warn',
        advice: `full: new prefixes push old ones out. About ${count(fit)} prompts of ${count(TYPICAL_PROMPT_TOKENS)} tokens fit; add workers or memory when more are in use`,
      },
    ];
  });
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
