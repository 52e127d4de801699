import type { Bus } from '@busbar/bus';
import { createSubjects, decodeCloudEvent, EVENT_KINDS } from '@busbar/protocol';
import type { CliContext } from '../context.ts';
import { endEngineGroups } from '../host/engine-groups.ts';
import { describeExit, type Exit, type Stack } from '../stack/stack.ts';
import { readState } from '../stack/state.ts';
import { stopAloud } from '../stack/stop-aloud.ts';
import { eventLine } from '../terminal/event-line.ts';
import { fired } from '../wait.ts';

const ENGINE_GRACE_MS = 5_000;

/**
 * Stays with a stack: tells its events and every process that ends. Ends in order when the signal fires; a second signal cuts
 * the drain short (the main program sees to it). Answers the exit code.
 */
export async function follow(context: CliContext, stack: Stack, bus: Bus): Promise<number> {
  const { terminal, signal } = context;
  tellEvents(context, stack, bus);
  const onExit = (exit: Exit): void => {
    if (isStopping(stack)) return;
    tellExit(context, exit);
    void endEngines(context, exit);
  };
  for (const exit of stack.exits) onExit(exit);
  stack.onExit(onExit);
  await fired(signal);
  if (isStopping(stack)) {
    terminal.line('The stack was stopped.');
    return 0;
  }
  terminal.line();
  await stopAloud(context, stack.stateDir, stack.state, context.hurry);
  terminal.line('Stopped.');
  return 0;
}

/** True when somebody ran `down`: the ends that follow are no crashes. */
function isStopping(stack: Stack): boolean {
  const state = readState(stack.stateDir);
  return state === undefined || state.isStopping;
}

function tellExit(context: CliContext, exit: Exit): void {
  const { terminal } = context;
  terminal.line(terminal.paint('red', describeExit(exit)));
  terminal.line('It is not started again: stop the stack (Ctrl-C) and start it anew.');
}

/** An engine of a worker that was killed would keep the accelerator for nobody. */
async function endEngines({ terminal }: CliContext, { process }: Exit): Promise<void> {
  for (const { groupId } of await endEngineGroups(process.engines ?? [], ENGINE_GRACE_MS)) {
    terminal.line(`What it left of its engine was ended: process group ${groupId}.`);
  }
}

function tellEvents(context: CliContext, stack: Stack, bus: Bus): void {
  const subjects = createSubjects(stack.state.namespace);
  for (const kind of EVENT_KINDS) {
    // One line for each request would bury what matters, and nobody sends them while nobody listens.
    if (kind === 'request.completed') continue;
    bus.subscribe(subjects.event(kind), (message) =>
      context.terminal.line(eventLine(decodeCloudEvent(message.data), context.terminal)),
    );
  }
}
