import type { Facts, HostView } from './facts.ts';
import type { Finding } from './finding.ts';

const group = 'engines on this machine';

const NAMES = {
  leftover: 'engine processes',
  port: 'engine port',
  lock: 'model locks',
  driver: 'driver and CUDA',
} as const;

/** What an engine that is started here would meet: leftovers of earlier ones, held locks, a driver that does not fit. */
export function judgeHost({ host }: Facts): Finding[] {
  if (host === undefined) return [];
  const found = host.findings.map(
    ({ kind, message, remedy }): Finding => ({
      group,
      name: NAMES[kind],
      verdict: 'fail',
      detail: message.replace(/\.$/, ''),
      advice: remedy,
    }),
  );
  const kinds = new Set(host.findings.map(({ kind }) => kind));
  const clean = (kind: keyof typeof NAMES, detail: string): Finding[] =>
    kinds.has(kind) ? [] : [{ group, name: NAMES[kind], verdict: 'ok', detail }];
  return [
    ...found,
    ...clean('leftover', 'none without a parent'),
    ...(host.hasModel ? clean('lock', 'none is held') : []),
    ...(host.build === undefined ? [] : clean('driver', host.build)),
    ...judgeCommand(host),
  ];
}

function judgeCommand({ command }: HostView): Finding[] {
  if (command === undefined) return [];
  const { problem, isRefused } = command;
  const advice = isRefused
    ? 'quote it as in a shell: workers start nothing until it can be read'
    : 'its CUDA was not compared with the driver, and workers leave out --enable-scale-out: add it to --vllm-args when this vLLM is 0.30 or newer';
  const detail = problem.replace(/\.$/, '');
  return [{ group, name: 'vLLM', verdict: isRefused ? 'fail' : 'warn', detail, advice }];
}
