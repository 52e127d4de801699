import { AppError, messageOf } from '@busbar/base';
import type { Role } from '@busbar/protocol';
import { createLogger, type Logger } from '@busbar/telemetry';
import type { BaseConfig } from './base-config.ts';
import { type ConfigSchema, loadConfig, redactConfig } from './config.ts';
import { connectWithRetry } from './connect.ts';
import type { ServiceFactory } from './port.ts';
import { type Shell, startShell } from './shell.ts';
import { exitOnSignals, listenForStop, type StopDemand } from './stop-demand.ts';
import { newProcessId } from './system.ts';
import { connectTo } from './transport.ts';

const CONNECT_WAIT_MS = 6_000;
const EXIT_FAILED = 1;
const EXIT_CONFIG = 2;
/** A start that was asked to stop and has not ended after this is left to the system: an engine may need its 10 s of grace. */
const START_STOP_MS = 20_000;

export interface ServiceDefinition<Config extends BaseConfig> {
  /** `baseFields` and the service's own fields in one zod object. */
  configSchema: ConfigSchema<Config>;
  create: ServiceFactory<Config>;
  env: Readonly<Record<string, string | undefined>>;
}

/**
 * Runs one service as this process: configuration from `env`, bus, lease, admin server, signals. The first SIGTERM or SIGINT
 * drains and exits with 0, a second one ends the drain (running streams get their error), a third exits at once. Exit code 2: wrong
 * configuration; 1: cannot start, or a fault.
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
    exitOnSignals();
    const bus = await connectWithRetry(() => connectTo(config.natsUrl, id, log), {
      url: config.natsUrl,
      waitMs: CONNECT_WAIT_MS,
      log,
    });
    const demand = listenForStop(log);
    const otlpEndpoint = definition.env['OTEL_EXPORTER_OTLP_ENDPOINT'];
    const shell = await startOrStop(demand, log, () =>
      startShell({
        role,
        id,
        config,
        create: definition.create,
        bus,
        log,
        stopping: demand.signal,
        onBusLost: () => demand.onBusLost(),
        ...(otlpEndpoint === undefined ? {} : { otlpEndpoint }),
      }),
    );
    shutDownOnDemand(shell, demand, log);
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

/** A start that fails because it was asked to stop is a stop in good order. */
async function startOrStop(
  demand: StopDemand,
  log: Logger,
  start: () => Promise<Shell>,
): Promise<Shell> {
  const giveUp = (): void => {
    const end = (): never => {
      log.error({ limitMs: START_STOP_MS }, 'the start could not be stopped in time');
      process.exit(EXIT_FAILED);
    };
    setTimeout(end, START_STOP_MS).unref();
  };
  demand.signal.addEventListener('abort', giveUp, { once: true });
  try {
    return await start();
  } catch (error) {
    if (!demand.signal.aborted) throw error;
    log.info({ reason: messageOf(error) }, 'stopped while starting');
    process.exit(demand.exitCode);
  } finally {
    demand.signal.removeEventListener('abort', giveUp);
  }
}

function shutDownOnDemand(shell: Shell, demand: StopDemand, log: Logger): void {
  const stop = (): void => {
    shell.shutdown().then(
      () => process.exit(demand.exitCode),
      (error: unknown) => {
        log.error({ reason: messageOf(error) }, 'could not stop in good order');
        process.exit(EXIT_FAILED);
      },
    );
  };
  demand.hurry.addEventListener('abort', () => shell.hurry(), { once: true });
  if (demand.hurry.aborted) shell.hurry();
  if (demand.signal.aborted) stop();
  else demand.signal.addEventListener('abort', stop, { once: true });
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
