import { PROFILE_NAMES } from '@busbar/mocker';
import type { Command } from 'commander';
import { up } from '../commands/up.ts';
import type { CliContext } from '../context.ts';
import { origins } from '../up/flags.ts';
import { DISAGGREGATION_NAMES, ENGINE_NAMES, POLICY_NAMES } from '../up/options.ts';
import { KV_CONNECTOR_NAMES } from '../up/pools.ts';
import { type Done, example, namespaceOption } from './program-parts.ts';

/** `busbar up` with all its flags, in groups. */
export function addUp(program: Command, context: CliContext, cwd: string, done: Done): void {
  const command = program
    .command('up')
    .description(
      'Starts a stack: nats-server unless BUSBAR_NATS_URL is set, routers, workers, frontends.',
    );
  addStackFlags(command);
  addSplitFlags(command);
  addMockFlags(command);
  addVllmFlags(command);
  command
    .addHelpText(
      'after',
      example(
        'busbar up',
        'busbar up --detach --decode 4 --kv-blocks 926,926,926,1693',
        'busbar up --prefill 1 --decode 2 --prefill-mock-speed 4',
        'busbar up --engine vllm --model-path ./qwen3 --decode 2 --vllm-args "--gpu-memory-utilization 0.4"',
      ) +
        '\nState and logs are in <namespace> below BUSBAR_STATE_DIR (default: .busbar of the project).',
    )
    .action(async (flags) => done(await up(context, flags, cwd)));
}

function addStackFlags(command: Command): void {
  command
    .option(
      '--engine <name>',
      `engine of the workers: ${ENGINE_NAMES.join(', ')} (${origins('engine')})`,
    )
    .option('--decode <n>', `workers that serve requests (${origins('decode')})`)
    .option(
      '--prefill <n>',
      `workers that only compute prompts, for decode workers (${origins('prefill')})`,
    )
    .option('--routers <n>', `routers (${origins('routers')})`)
    .option('--frontends <n>', `frontends; several share the port (${origins('frontends')})`)
    .option(
      '--model <name>',
      'name under which the model is served (default: busbar-mock, or with vLLM the name of the folder; env: BUSBAR_MODEL)',
    )
    .option(
      '--model-path <dir>',
      `folder with tokenizer.json; for vLLM with the weights too, or a name on the hub; without it the small built-in one (${origins('modelPath')})`,
    )
    .option(
      '--block-size <n>',
      'tokens in a KV block (default: 16, or what vLLM takes; env: BUSBAR_BLOCK_SIZE)',
    )
    .option(
      '--context-tokens <n>',
      `longest prompt and answer together (${origins('contextTokens')})`,
    )
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
    .option('--detach', 'return when the stack answers; "busbar down" ends it');
}

function addSplitFlags(command: Command): void {
  command
    .optionsGroup('Prefill and decode apart:')
    .option(
      '--disaggregation <mode>',
      `when a prompt goes to a prefill worker: ${DISAGGREGATION_NAMES.join(', ')} (${origins('disaggregation')})`,
    )
    .option(
      '--disaggregation-threshold <n>',
      `with mode threshold: uncached prompt tokens above which it does (${origins('disaggregationThreshold')})`,
    )
    .option(
      '--disaggregation-strict',
      'refuse what cannot be split instead of serving it whole (env: BUSBAR_DISAGGREGATION_STRICT)',
    )
    .option(
      '--kv-bytes-per-token <n>',
      `KV of one token over all layers (default: 114688, or what vLLM's model says; env: BUSBAR_KV_BYTES_PER_TOKEN)`,
    );
}

function addMockFlags(command: Command): void {
  command
    .optionsGroup('Engine mock:')
    .option('--profile <name>', `timing: ${PROFILE_NAMES.join(', ')} (${origins('profile')})`)
    .option('--kv-blocks <n[,n...]>', `KV cache of each worker, in blocks (${origins('kvBlocks')})`)
    .option(
      '--mock-speed <f[,f...]>',
      `speed of each worker against its profile (${origins('mockSpeed')})`,
    )
    .option('--prefill-profile <name>', 'timing of prefill workers (default: as decode workers)')
    .option(
      '--prefill-kv-blocks <n[,n...]>',
      'KV cache of prefill workers (default: as the first decode worker)',
    )
    .option(
      '--prefill-mock-speed <f[,f...]>',
      'speed of prefill workers (default: as the first decode worker)',
    );
}

function addVllmFlags(command: Command): void {
  command
    .optionsGroup('Engine vllm:')
    .option(
      '--vllm-command <line>',
      `what is run with "serve": a program, perhaps with a wrapper before it, in one quoted text (${origins('vllmCommand')})`,
    )
    .option(
      '--vllm-args <line>',
      `more arguments of "vllm serve", in one quoted text (${origins('vllmArgs')})`,
    )
    .option(
      '--vllm-url <url[,url...]>',
      `attach to vLLMs that run already, one for each worker (${origins('vllmUrl')})`,
    )
    .option(
      '--vllm-gpus <n[+n...][,...]>',
      'GPUs of each worker, those of decode workers first; 0+1,2+3 gives two to each',
    )
    .option(
      '--kv-connector <name>',
      `how KV leaves a prefill worker: ${KV_CONNECTOR_NAMES.join(', ')} (default: nixl with --prefill, else none; env: BUSBAR_KV_CONNECTOR)`,
    );
}
