import { Command, Option } from 'commander';
import { chat } from './commands/chat.ts';
import { doctor } from './commands/doctor.ts';
import { down } from './commands/down.ts';
import { events } from './commands/events.ts';
import { ps } from './commands/ps.ts';
import { simulate } from './commands/simulate.ts';
import { up } from './commands/up.ts';
import type { CliContext } from './context.ts';
import { origins } from './up/flags.ts';
import { ENGINE_NAMES, POLICY_NAMES, PROFILE_NAMES } from './up/options.ts';

/** What a command ended with: 0 well, 1 a failed check or start, 2 wrong usage. */
export type Done = (exitCode: number) => void;

/** The whole command line. Nothing runs before `parseAsync`; each action hands its exit code to `done`. */
export function createProgram(
  context: CliContext,
  version: string,
  cwd: string,
  done: Done,
): Command {
  const program = new Command('busbar')
    .description('Serves large language models on many workers over one message bus: NATS.')
    .version(version)
    .showSuggestionAfterError()
    .helpCommand(false)
    .enablePositionalOptions()
    .addHelpText(
      'after',
      example('busbar up --detach && busbar chat "Hello" && busbar down') +
        '\nExit codes: 0 well, 1 a failed check or start, 2 wrong usage. NO_COLOR turns colours off.',
    );
  addUp(program, context, cwd, done);
  addDown(program, context, done);
  addPs(program, context, done);
  addChat(program, context, done);
  addEvents(program, context, done);
  addDoctor(program, context, done);
  addSimulate(program, context, done);
  return program;
}

function addUp(program: Command, context: CliContext, cwd: string, done: Done): void {
  program
    .command('up')
    .description(
      'Starts a stack: nats-server unless BUSBAR_NATS_URL is set, routers, workers, frontends.',
    )
    .option(
      '--engine <name>',
      `engine of the workers: ${ENGINE_NAMES.join(', ')} (${origins('engine')})`,
    )
    .option('--decode <n>', `workers (${origins('decode')})`)
    .option('--routers <n>', `routers (${origins('routers')})`)
    .option('--frontends <n>', `frontends; several share the port (${origins('frontends')})`)
    .option('--model <name>', `name under which the model is served (${origins('model')})`)
    .option(
      '--model-path <dir>',
      `folder with tokenizer.json; without it the small built-in one (${origins('modelPath')})`,
    )
    .option(
      '--profile <name>',
      `timing of the mock: ${PROFILE_NAMES.join(', ')} (${origins('profile')})`,
    )
    .option('--kv-blocks <n[,n...]>', `KV cache of each worker, in blocks (${origins('kvBlocks')})`)
    .option('--block-size <n>', `tokens in a block (${origins('blockSize')})`)
    .option(
      '--policy <name>',
      `how routers choose: ${POLICY_NAMES.join(', ')} (${origins('policy')})`,
    )
    .option(
      '--no-kv-events',
      'workers do not tell what their caches hold (env: BUSBAR_KV_EVENTS=false)',
    )
    .option('--port <n>', `port of the HTTP API (${origins('port')})`)
    .option('--host <address>', `address of the HTTP API (${origins('host')})`)
    .addOption(namespaceOption())
    .option(
      '--context-tokens <n>',
      `longest prompt and answer together (${origins('contextTokens')})`,
    )
    .option(
      '--mock-speed <f[,f...]>',
      `speed of each worker against its profile (${origins('mockSpeed')})`,
    )
    .option('--detach', 'return when the stack answers; "busbar down" ends it')
    .addHelpText(
      'after',
      example('busbar up', 'busbar up --detach --decode 4 --kv-blocks 926,926,926,1693'),
    )
    .action(async (flags) => done(await up(context, flags, cwd)));
}

function addDown(program: Command, context: CliContext, done: Done): void {
  program
    .command('down')
    .description('Ends a stack: running requests finish, then every process goes.')
    .addOption(namespaceOption())
    .addHelpText('after', example('busbar down', 'busbar down --namespace second'))
    .action(async (flags) => done(await down(context, flags)));
}

function addPs(program: Command, context: CliContext, done: Done): void {
  program
    .command('ps')
    .description('Lists every process of a stack, nats-server too.')
    .addOption(namespaceOption())
    .option(
      '--json',
      'for programs: {namespace, url, natsUrl, processes: [{role, id, pid, state, …}]}',
    )
    .addHelpText('after', example('busbar ps', 'busbar ps --json'))
    .action(async (flags) => done(await ps(context, flags)));
}

function addChat(program: Command, context: CliContext, done: Done): void {
  program
    .command('chat')
    .description('Talks to a model; without a message it reads lines until the input ends.')
    .argument('[message]', 'one message, answered once')
    .addOption(namespaceOption())
    .option('--model <name>', 'model; without it the first that is served')
    .option('--url <url>', 'HTTP API; without it the stack of this machine')
    .option('--quick', 'one short answer to the message, or to "Hello"')
    .addHelpText(
      'after',
      example('busbar chat', 'busbar chat "What is a bus bar?"', 'busbar chat --quick'),
    )
    .action(async (message, flags) => done(await chat(context, message, flags)));
}

function addEvents(program: Command, context: CliContext, done: Done): void {
  program
    .command('events')
    .description(
      'Follows what happens: workers that join and leave, routers that lose trust in one.',
    )
    .addOption(namespaceOption())
    .option('--kind <kind>', 'only events of this kind')
    .option('--json', 'one CloudEvent a line')
    .addHelpText('after', example('busbar events', 'busbar events --kind router.demoted --json'))
    .action(async (flags) => done(await events(context, flags)));
}

function addDoctor(program: Command, context: CliContext, done: Done): void {
  program
    .command('doctor')
    .description(
      'Checks a running stack, sends a probe, and says what is wrong. Exit code 1 when a check fails.',
    )
    .addOption(namespaceOption())
    .option('--url <url>', 'HTTP API for the probe; without it the stack of this machine')
    .option(
      '--json',
      'for programs: {ok, namespace, findings: [{group, name, verdict, detail, advice?}]}',
    )
    .addHelpText('after', example('busbar doctor', 'busbar doctor --json'))
    .action(async (flags) => done(await doctor(context, flags)));
}

function addSimulate(program: Command, context: CliContext, done: Done): void {
  program
    .command('simulate')
    .description(
      'Runs a workload against routers and workers under a virtual clock. "simulate --help" lists its flags.',
    )
    .argument('[args...]', 'handed to the simulator')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (args: string[]) => done(await simulate(context, args)));
}

function namespaceOption(): Option {
  return new Option(
    '--namespace <name>',
    'separates stacks; else BUSBAR_NAMESPACE, else "default"',
  );
}

function example(...lines: string[]): string {
  return `\nExamples:\n${lines.map((line) => `  $ ${line}`).join('\n')}`;
}
