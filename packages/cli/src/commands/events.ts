import type { Bus } from '@busbar/bus';
import { createSubjects, decodeCloudEvent, EVENT_KINDS } from '@busbar/protocol';
import { connectBus } from '../clients/bus-client.ts';
import type { CliContext } from '../context.ts';
import { CliError } from '../errors.ts';
import { findTarget, requireTarget } from '../stack/target.ts';
import { eventLine } from '../terminal/event-line.ts';
import { nearest } from '../terminal/nearest.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { fired } from '../wait.ts';

/** `busbar events`: prints CloudEvents until it is interrupted. */
export async function events(
  context: CliContext,
  flags: { namespace?: string; kind?: string; json?: boolean },
): Promise<number> {
  const kind = EVENT_KINDS.find((name) => name === flags.kind);
  if (flags.kind !== undefined && kind === undefined) {
    const close = nearest(flags.kind, EVENT_KINDS);
    throw new CliError(
      'CLI_USAGE',
      `--kind does not know "${flags.kind}"${close ? `; did you mean ${close}?` : '.'} Known: ${EVENT_KINDS.join(', ')}`,
    );
  }
  const target = findTarget(context, flags.namespace);
  requireTarget(context, target);
  const subjects = createSubjects(target.namespace);
  const bus = await connectBus(target.natsUrl, 'events');
  const { terminal } = context;
  bus.subscribe(kind === undefined ? subjects.eventAll : subjects.event(kind), (message) => {
    if (flags.json === true) terminal.line(new TextDecoder().decode(message.data));
    else terminal.line(eventLine(decodeCloudEvent(message.data), terminal));
  });
  tellBreaks(bus, terminal);
  if (!flags.json) terminal.errorLine('Waiting for events; Ctrl-C ends.');
  await fired(context.signal);
  await bus.close();
  return 0;
}

/** Who follows events must know when none can come: what happens during a break is never told. */
export function tellBreaks(bus: Pick<Bus, 'onStatus'>, terminal: Terminal): void {
  bus.onStatus((change) => {
    if (change === 'disconnected') {
      terminal.errorLine(
        'The connection to NATS is lost; trying again. Events of this time are missed.',
      );
    } else if (change === 'reconnected') terminal.errorLine('Connected to NATS again.');
  });
}
