export type { CliContext } from './context.ts';
export type { Diagnosis, Finding } from './doctor/finding.ts';
export { createProgram } from './program/program.ts';
export type { ProcessView, StackView } from './stack/stack-view.ts';
export { createTerminal, type Terminal } from './terminal/terminal.ts';
export { assumedDefaults } from './up/flags.ts';
export { CLI_VARIABLES, SERVICE_VARIABLES } from './up/service-env.ts';
