import { Option } from 'commander';

/** What a command ended with: 0 well, 1 a failed check or start, 2 wrong usage. */
export type Done = (exitCode: number) => void;

export function namespaceOption(): Option {
  return new Option(
    '--namespace <name>',
    'separates stacks; else BUSBAR_NAMESPACE, else "default"',
  );
}

/** Examples as they stand below a help text. */
export function example(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`;
}
