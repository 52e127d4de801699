import { readFileSync } from 'node:fs';
import { CLI_VARIABLES, createProgram, createTerminal } from '@busbar/cli';
import { runSimulateCommand } from '@busbar/simulator';
import { documentedMembers } from './doc-comments.ts';
import { code, markdownTable, type Page, page } from './page.ts';

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
    `\`npx busbar\` in a clone. The command itself reads ${CLI_VARIABLES.map(code).join(', ')} (folder that holds one folder for each namespace, with the stack's state and logs; else \`.busbar\` of the project); what services read is in [configuration.md](configuration.md), and \`up\` hands it to those that know it.`,
    [...parts, processFields()],
  );
}

/** What a program finds in `ps --json`. */
function processFields(): string {
  const file = new URL('../../packages/cli/src/stack/stack-view.ts', import.meta.url);
  const members = documentedMembers(readFileSync(file, 'utf8'), 'export interface ProcessView {');
  return [
    '## JSON of busbar ps',
    '`{namespace, url, natsUrl, processes}`; `url` and `natsUrl` are null when no stack runs here. Of each process, what is not known is absent:',
    markdownTable(
      ['field', 'what it says'],
      members.map(({ name, doc }) => [code(name), doc]),
    ),
  ].join('\n\n');
}
