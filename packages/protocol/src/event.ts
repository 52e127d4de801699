import { z } from 'zod';
import { parse, parseJson } from './frame.ts';
import { EVENT_KINDS, type EventKind } from './names.ts';

/** CloudEvents 1.0 in structured JSON, as integrations receive it on `event.<kind>`. */
const cloudEventSchema = z.object({
  specversion: z.literal('1.0'),
  id: z.string(),
  source: z.string(),
  type: z.templateLiteral(['busbar.', z.enum(EVENT_KINDS)]),
  time: z.string(),
  subject: z.string().optional(),
  datacontenttype: z.literal('application/json'),
  data: z.record(z.string(), z.unknown()),
});
export type CloudEvent = z.infer<typeof cloudEventSchema>;

/** Builds one event. `time` is RFC 3339; `source` names the process, e.g. `/busbar/default/router/r-1`. */
export function createCloudEvent(
  kind: EventKind,
  fields: {
    id: string;
    source: string;
    time: string;
    subject?: string;
    data: Record<string, unknown>;
  },
): CloudEvent {
  return {
    specversion: '1.0',
    type: `busbar.${kind}`,
    datacontenttype: 'application/json',
    ...fields,
  };
}

const encoder = new TextEncoder();

export function encodeCloudEvent(event: CloudEvent): Uint8Array {
  return encoder.encode(JSON.stringify(event));
}

/** Throws ProtocolError on anything else. */
export function decodeCloudEvent(bytes: Uint8Array): CloudEvent {
  return parse(cloudEventSchema, parseJson(bytes));
}
