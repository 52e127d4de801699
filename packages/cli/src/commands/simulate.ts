import type { CliContext } from '../context.ts';

/** `busbar simulate`: hands everything to the simulator, which is loaded only here. */
export async function simulate(context: CliContext, args: string[]): Promise<number> {
  const { runSimulateCommand } = await import('@busbar/simulator');
  return runSimulateCommand(args, context.terminal);
}
