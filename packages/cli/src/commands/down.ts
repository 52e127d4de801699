import { type CliContext, namespaceOf, stateDirOf } from '../context.ts';
import { readState } from '../state.ts';
import { stopAloud } from '../stop-aloud.ts';

/** `busbar down`: ends every process of a stack. With nothing to end it says so and succeeds. */
export async function down(context: CliContext, flags: { namespace?: string }): Promise<number> {
  const { terminal } = context;
  const namespace = namespaceOf(context, flags.namespace);
  const stateDir = stateDirOf(context, namespace);
  const state = readState(stateDir);
  if (state === undefined) {
    terminal.line(`No stack runs in namespace ${namespace} (${stateDir}).`);
    return 0;
  }
  const { ended, killed } = await stopAloud(context, stateDir, state, context.signal);
  terminal.line(`Stopped ${ended.length + killed.length} processes.`);
  return 0;
}
