export type { CliContext } from './context.ts';
export type { Diagnosis, Finding } from './doctor/finding.ts';
export { createProgram } from './program.ts';
export { CLI_VARIABLES, SERVICE_VARIABLES } from './service-env.ts';
export type { ProcessView, StackView } from './stack-view.ts';
export { createTerminal, type Terminal } from './terminal.ts';
export { assumedDefaults } from './up/flags.ts';
