import { type CliContext, namespaceOf, stateDirOf } from '../context.ts';
import { readState } from '../state.ts';
import { stopStack } from '../stop.ts';

/** `busbar down`: ends every process of a stack. With nothing to end it says so and succeeds. */
export async function down(context: CliContext, flags: { namespace?: string }): Promise<number> {
  const { terminal } = context;
  const namespace = namespaceOf(context, flags.namespace);
  const stateDir = stateDirOf(context, namespace);
  const state = readState(stateDir);
  if (state === undefined) {
    terminal.line(`No stack runs in ${stateDir}.`);
    return 0;
  }
  const names = (processes: readonly { id: string }[]): string =>
    processes.map((entry) => entry.id).join(', ');
  const { ended, killed } = await stopStack(
    stateDir,
    state,
    (processes) => terminal.line(`Stopping ${names(processes)} …`),
    context.signal,
  );
  if (killed.length > 0) terminal.line(`Killed, because they did not end: ${names(killed)}`);
  terminal.line(`Stopped ${ended.length + killed.length} processes.`);
  return 0;
}
