import type { Bus } from '@busbar/bus';
import { createSubjects, decodeCloudEvent } from '@busbar/protocol';
import type { CliContext } from '../context.ts';
import { eventLine } from '../event-line.ts';
import { readState, type StackProcess } from '../state.ts';
import { stopStack } from '../stop.ts';
import { fired } from '../wait.ts';
import { describeExit, type Exit, type Stack } from './stack.ts';

/**
 * Stays with a stack: tells its events and every process that ends. Ends in order when the signal fires; a second signal cuts
 * the drain short (the main program sees to it). Answers the exit code.
 */
export async function follow(context: CliContext, stack: Stack, bus: Bus): Promise<number> {
  const { terminal, signal } = context;
  tellEvents(context, stack, bus);
  for (const exit of stack.exits) tellExit(context, exit);
  stack.onExit((exit) => {
    if (!isStopping(stack)) tellExit(context, exit);
  });
  await fired(signal);
  if (isStopping(stack)) {
    terminal.line('The stack was stopped.');
    return 0;
  }
  terminal.line();
  const { killed } = await stopStack(
    stack.stateDir,
    stack.state,
    (processes) => terminal.line(`Stopping ${names(processes)} …`),
    context.hurry,
  );
  if (killed.length > 0) terminal.line(`Killed, because they did not end: ${names(killed)}`);
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

function tellEvents(context: CliContext, stack: Stack, bus: Bus): void {
  const subjects = createSubjects(stack.state.namespace);
  bus.subscribe(subjects.eventAll, (message) => {
    const event = decodeCloudEvent(message.data);
    // One line for each request would bury what matters.
    if (event.type !== 'busbar.request.completed')
      context.terminal.line(eventLine(event, context.terminal));
  });
}

function names(processes: readonly StackProcess[]): string {
  return processes.map((entry) => entry.id).join(', ');
}
