import { INTERNAL, unsupported } from './field-rules.ts';
import { isObject } from './json-body.ts';
import type { Problem } from './problem.ts';

/**
 * Beginnings of the names under which inference servers take orders about where KV comes from, goes to, or which of their processes
 * works. Compared without case and separators, since servers differ in both.
 */
const STEERING = [
  'kvtransfer',
  'ectransfer',
  'kvsource',
  'stagekv',
  'doremote',
  'remote',
  'transferid',
  'prefillworker',
  'decodeworker',
  'prefiller',
  'bootstraphost',
  'bootstrapport',
  'bootstraproom',
  'disaggregated',
  'disaggparams',
  'dataparallelrank',
  'dprank',
  'routeddprank',
  'backendinstanceid',
];

/** Fields whose content some servers treat as fields of the body. */
const ENVELOPES = ['extrabody', 'extraargs', 'vllmxargs', 'nvext', 'samplingparams'];

/**
 * The first field by which a client would steer how Busbar moves KV or picks workers: an address in it would make an engine open
 * connections to wherever the client likes. Looks at the body itself and at what its envelopes hold; the values of other fields
 * (messages, tools, metadata) are the client's own.
 */
export function findSteering(body: Record<string, unknown>): Problem | undefined {
  const open: { prefix: string; fields: Record<string, unknown> }[] = [
    { prefix: '', fields: body },
  ];
  for (let level = open.pop(); level !== undefined; level = open.pop()) {
    for (const [key, value] of Object.entries(level.fields)) {
      if (value === null || value === undefined) continue;
      const name = bare(key);
      const param = level.prefix + key;
      if (STEERING.some((start) => name.startsWith(start))) {
        return unsupported(shown(param), INTERNAL);
      }
      if (ENVELOPES.includes(name) && isObject(value)) {
        open.push({ prefix: `${param}.`, fields: value });
      }
    }
  }
  return undefined;
}

function bare(key: string): string {
  return key.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

function shown(param: string): string {
  return param.slice(0, 128);
}
