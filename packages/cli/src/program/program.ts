import { Command } from 'commander';
import { chat } from '../commands/chat.ts';
import { doctor } from '../commands/doctor.ts';
import { down } from '../commands/down.ts';
import { events } from '../commands/events.ts';
import { ps } from '../commands/ps.ts';
import { simulate } from '../commands/simulate.ts';
import type { CliContext } from '../context.ts';
import { type Done, example, namespaceOption } from './program-parts.ts';
import { addUp } from './program-up.ts';

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
