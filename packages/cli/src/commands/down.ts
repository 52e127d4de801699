import type { CliContext } from '../context.ts';
import { stopAloud } from '../stack/stop-aloud.ts';
import { findTarget } from '../stack/target.ts';

/** `busbar down`: ends every process of a stack. With nothing to end it says so and succeeds. */
export async function down(context: CliContext, flags: { namespace?: string }): Promise<number> {
  const { terminal } = context;
  const { namespace, stateDir, state } = findTarget(context, flags.namespace);
  if (state === undefined) {
    terminal.line(`No stack runs in namespace ${namespace} (${stateDir}).`);
    return 0;
  }
  const { ended, killed } = await stopAloud(context, stateDir, state, context.signal);
  terminal.line(`Stopped ${ended.length + killed.length} processes.`);
  return 0;
}
