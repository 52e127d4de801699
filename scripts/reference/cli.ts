import { CLI_VARIABLES, createProgram, createTerminal } from '@busbar/cli';
import { runSimulateCommand } from '@busbar/simulator';
import { code, type Page, page } from './page.ts';

const WIDTH = 100;
const never = new AbortController().signal;

/** The help of every command, as the command prints it. */
export async function cliPage(): Promise<Page> {
  const terminal = createTerminal({ write: () => {} }, { write: () => {} }, {});
  const context = {
    terminal,
    env: {},
    root: '',
    signal: never,
    hurry: never,
    readLine: () => Promise.resolve(undefined),
    isInputTty: false,
  };
  const program = createProgram(context, '0.0.0', '', () => {});
  const commands = [program, ...program.commands];
  let simulateHelp = '';
  await runSimulateCommand(['--help'], {
    line: (text) => (simulateHelp += `${text}\n`),
    errorLine: () => {},
  });
  const parts = commands.map((command) => {
    let text = '';
    command.configureOutput({ writeOut: (more) => (text += more), getOutHelpWidth: () => WIDTH });
    command.outputHelp();
    if (command.name() === 'simulate') text = simulateHelp;
    const name = command === program ? 'busbar' : `busbar ${command.name()}`;
    return `## ${name}\n\n\`\`\`text\n${text.trimEnd()}\n\`\`\``;
  });
  return page(
    'cli.md',
    'The busbar command',
    `\`npx busbar\` in a clone. The command itself reads ${CLI_VARIABLES.map(code).join(', ')} (folder of one stack's state and logs); what services read is in [configuration.md](configuration.md), and \`up\` hands it to those that know it.`,
    parts,
  );
}
