import { type Bus, connectNats } from '@busbar/bus';
import type { Logger } from '@busbar/telemetry';

/** The bus that production processes use. */
export function connectTo(url: string, name: string, log: Logger): Promise<Bus> {
  return connectNats({ url, name, log });
}
