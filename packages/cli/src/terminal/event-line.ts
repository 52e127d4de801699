import type { CloudEvent } from '@busbar/protocol';
import type { Terminal } from './terminal.ts';

const DATA_CHARS_MAX = 400;

/** One event as one line: time of day, kind, what it is about, its data. */
export function eventLine(event: CloudEvent, terminal: Pick<Terminal, 'paint'>): string {
  const kind = event.type.slice('busbar.'.length);
  const isBad = kind === 'router.demoted' || kind === 'worker.degraded' || kind === 'worker.left';
  const data = Object.entries(event.data)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ');
  return [
    terminal.paint('dim', event.time.slice(11, 19)),
    terminal.paint(isBad ? 'yellow' : 'bold', kind.padEnd(18)),
    event.subject ?? '-',
    data.slice(0, DATA_CHARS_MAX),
  ]
    .join('  ')
    .trimEnd();
}
