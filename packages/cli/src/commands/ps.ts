import { limit } from '@busbar/protocol';
import { type CliContext, commandFor } from '../context.ts';
import { type ProcessView, type StackView, viewStack } from '../stack/stack-view.ts';
import { findTarget, hasTarget, observeTarget } from '../stack/target.ts';
import { count, type Terminal, table } from '../terminal/terminal.ts';

/** One heartbeat of each worker, and some slack. */
const LISTEN_MS = limit('loadIntervalMs') + 100;

/** `busbar ps`: every process of a stack, for a person or, with `--json`, for a program. */
export async function ps(
  context: CliContext,
  flags: { namespace?: string; json?: boolean },
): Promise<number> {
  const target = findTarget(context, flags.namespace);
  const cluster = hasTarget(context, target) ? await observeTarget(target, LISTEN_MS) : undefined;
  const view = viewStack(target.namespace, target.state, cluster);
  if (flags.json === true) context.terminal.line(JSON.stringify(view, undefined, 2));
  else for (const line of renderStack(view, context.terminal)) context.terminal.line(line);
  return 0;
}

/** The table for a person. */
export function renderStack(view: StackView, terminal: Pick<Terminal, 'paint'>): string[] {
  if (view.processes.length === 0) {
    const start = commandFor(view.namespace, 'busbar up');
    return [`No stack runs in namespace ${view.namespace}. Start one with "${start}".`];
  }
  const head = ['ROLE', 'ID', 'PID', 'STATE', 'ADDRESS', 'MODEL', 'KV BLOCKS', 'IN FLIGHT'];
  const [title, ...rows] = table([head, ...view.processes.map(row)]);
  return [
    `namespace ${view.namespace}${view.url === null ? '' : `  ${view.url}`}`,
    '',
    terminal.paint('bold', title ?? ''),
    ...rows.map((line, i) =>
      view.processes[i]?.state === 'exited' ? terminal.paint('red', line) : line,
    ),
  ];
}

function row(view: ProcessView): string[] {
  const address = view.adminUrl ?? (view.port === undefined ? '' : `:${view.port}`);
  return [
    view.role,
    view.id,
    String(view.pid),
    view.state,
    view.host === undefined ? address : `${view.host} ${address}`,
    view.model ?? '',
    blocks(view),
    view.running === undefined ? '' : `${view.running} + ${view.waiting ?? 0} waiting`,
  ];
}

/** `310 of 926 used`: blocks that hold something, in use or reusable. */
function blocks(view: ProcessView): string {
  if (view.kvBlocks === undefined) return '';
  if (view.freeBlocks === undefined) return count(view.kvBlocks);
  return `${count(view.kvBlocks - view.freeBlocks)} of ${count(view.kvBlocks)} filled`;
}
