import { type Clock, messageOf } from '@busbar/base';
import type { Bus } from '@busbar/bus';
import {
  createCloudEvent,
  type EventKind,
  encodeCloudEvent,
  type Subjects,
} from '@busbar/protocol';
import type { Logger } from '@busbar/telemetry';

/** Publishes CloudEvents of one process; ids are unique over all its starts. Never throws. */
export function createEventPublisher(options: {
  bus: Bus;
  subjects: Subjects;
  clock: Clock;
  log: Logger;
  source: string;
  epoch: number;
}): (kind: EventKind, subject: string, data: Record<string, unknown>) => void {
  let count = 0;
  return (kind, subject, data) => {
    count++;
    const event = createCloudEvent(kind, {
      id: `${options.epoch.toString(36)}-${count}`,
      source: options.source,
      time: new Date(options.clock.wallMs()).toISOString(),
      subject,
      data,
    });
    try {
      options.bus.publish(options.subjects.event(kind), encodeCloudEvent(event));
    } catch (error) {
      options.log.debug({ kind, reason: messageOf(error) }, 'an event could not be published');
    }
  };
}
