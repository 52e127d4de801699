import type { CliContext } from '../context.ts';
import { describeJoined, findJoined } from './joined.ts';
import type { StackProcess, StackState } from './state.ts';
import { type StopReport, stopStack } from './stop.ts';

/** A stop that takes longer than this waits for running requests, and says so. */
const SILENCE_MS = 1_500;

/** `stopStack` with a line for each stage, for what it waits for, for what it had to kill, and for what is not its to end. */
export async function stopAloud(
  { terminal }: Pick<CliContext, 'terminal'>,
  stateDir: string,
  state: StackState,
  hurry: AbortSignal,
  find = findJoined,
): Promise<StopReport> {
  // Before the stop, which may end the bus that knows them.
  const joined = await find(state);
  const patience = setTimeout(() => {
    const atMost = Math.ceil(state.drainMs / 1_000);
    terminal.line(
      `Running requests may finish, for up to ${atMost} s. Ctrl-C ends them now, each with an error.`,
    );
  }, SILENCE_MS);
  try {
    const report = await stopStack(
      stateDir,
      state,
      (processes) => terminal.line(`Stopping ${names(processes)} …`),
      hurry,
    );
    if (report.killed.length > 0) {
      const why = hurry.aborted ? 'to wait no longer' : 'because they did not end';
      terminal.line(`Killed, ${why}: ${names(report.killed)}`);
    }
    for (const { groupId, members } of report.leftovers) {
      terminal.line(
        `Ended what a dead worker had left of its engine: process group ${groupId}, ${members.length === 1 ? '1 process' : `${members.length} processes`}.`,
      );
    }
    const still = describeJoined(joined);
    if (still !== undefined) terminal.line(still);
    return report;
  } finally {
    clearTimeout(patience);
  }
}

function names(processes: readonly StackProcess[]): string {
  return processes.map((entry) => entry.id).join(', ');
}
