export { parseEventSources } from './event-sources.ts';
export { createKvEvents } from './listener.ts';
export type * from './port.ts';
