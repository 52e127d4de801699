import { constants } from 'node:os';
import { AppError, messageOf } from '@busbar/base';
import type { Role } from '@busbar/protocol';
import { createLogger, type Logger } from '@busbar/telemetry';
import type { BaseConfig } from './base-config.ts';
import { type ConfigSchema, loadConfig, redactConfig } from './config.ts';
import { connectWithRetry } from './connect.ts';
import type { ServiceFactory } from './port.ts';
import { type Shell, startShell } from './shell.ts';
import { newProcessId } from './system.ts';
import { connectTo } from './transport.ts';

const CONNECT_WAIT_MS = 6_000;
const EXIT_FAILED = 1;
const EXIT_CONFIG = 2;
const SIGNAL_EXIT_BASE = 128;

export interface ServiceDefinition<Config extends BaseConfig> {
  /** `baseFields` and the service's own fields in one zod object. */
  configSchema: ConfigSchema<Config>;
  create: ServiceFactory<Config>;
  env: Readonly<Record<string, string | undefined>>;
}

/**
 * Runs one service as this process: configuration from `env`, bus, lease, admin server, signals. The first SIGTERM or SIGINT
 * drains and exits with 0, a second one exits at once. Exit code 2: wrong configuration; 1: cannot start, or a fault.
 */
export async function runService<Config extends BaseConfig>(
  role: Role,
  definition: ServiceDefinition<Config>,
): Promise<void> {
  let log = createLogger({ level: 'info', format: 'pretty', base: { role } });
  try {
    const { config, origins } = loadConfig(definition.configSchema, definition.env);
    const id = config.id ?? newProcessId(role);
    log = createLogger({ level: config.logLevel, format: config.logFormat, base: { role, id } });
    log.debug({ config: redactConfig(definition.configSchema, config), origins }, 'configuration');
    exitOnFault(log);
    for (const signal of SIGNALS) process.on(signal, exitAtOnce);
    const bus = await connectWithRetry(() => connectTo(config.natsUrl, id, log), {
      url: config.natsUrl,
      waitMs: CONNECT_WAIT_MS,
      log,
    });
    const otlpEndpoint = definition.env['OTEL_EXPORTER_OTLP_ENDPOINT'];
    const shell = await startShell({
      role,
      id,
      config,
      create: definition.create,
      bus,
      log,
      ...(otlpEndpoint === undefined ? {} : { otlpEndpoint }),
    });
    stopOnSignals(shell, log);
  } catch (error) {
    if (error instanceof AppError) {
      for (const sentence of error.message.split('\n'))
        process.stderr.write(`${role}: ${sentence}\n`);
      process.exit(error.code === 'SERVICE_CONFIG' ? EXIT_CONFIG : EXIT_FAILED);
    }
    log.error({ err: error }, 'could not start');
    process.exit(EXIT_FAILED);
  }
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/** As the first process of a container there is no default action: a start that hangs could not be ended otherwise. */
function exitAtOnce(signal: NodeJS.Signals): void {
  process.exit(SIGNAL_EXIT_BASE + constants.signals[signal]);
}

function stopOnSignals(shell: Shell, log: Logger): void {
  let isStopping = false;
  const stop = (why: string, exitCode: number): void => {
    isStopping = true;
    log.info({}, why);
    shell.shutdown().then(
      () => process.exit(exitCode),
      (error: unknown) => {
        log.error({ reason: messageOf(error) }, 'could not stop in good order');
        process.exit(EXIT_FAILED);
      },
    );
  };
  for (const signal of SIGNALS) {
    process.off(signal, exitAtOnce);
    process.on(signal, () => {
      if (isStopping) exitAtOnce(signal);
      stop(`${signal}: draining`, 0);
    });
  }
  shell.context.bus.onStatus((change) => {
    if (change === 'closed' && !isStopping) stop('the connection to NATS is lost for good', 1);
  });
}

/** A fault that nobody expected leaves a state that nobody can trust: say it and end. */
function exitOnFault(log: Logger): void {
  const end = (error: unknown): void => {
    log.error({ err: error }, 'unexpected fault; exiting');
    process.exit(EXIT_FAILED);
  };
  process.on('uncaughtException', end);
  process.on('unhandledRejection', end);
}
