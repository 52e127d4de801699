const LABELS: Record<string, string> = {
  debug: 'debug',
  info: 'info ',
  warn: 'WARN ',
  error: 'ERROR',
};
const HIDDEN = new Set(['level', 'time', 'message', 'role', 'id', 'err', 'pid', 'hostname']);

/**
 * Turns one JSON log line into one line for a person: `12:30:01.123 info  router-ab12 sentence key=value …`, with the stack of
 * `err` below it. A line that is not JSON comes back as it is.
 */
export function formatPretty(line: string): string {
  const record = parseRecord(line);
  if (record === undefined) return line;
  const text = (key: string): string => {
    const value = record[key];
    return typeof value === 'string' ? value : '';
  };
  const level = LABELS[text('level')] ?? text('level');
  const parts = [text('time').slice(11, 23), level, text('id'), text('message')];
  for (const [key, value] of Object.entries(record)) {
    if (!HIDDEN.has(key)) parts.push(`${key}=${formatValue(value)}`);
  }
  return `${parts.filter((part) => part !== '').join(' ')}${formatError(record['err'])}\n`;
}

function parseRecord(line: string): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(line);
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : undefined;
  } catch {
    return undefined;
  }
}

function formatValue(value: unknown): string {
  if (typeof value === 'string') return /[\s"=]/.test(value) ? JSON.stringify(value) : value;
  return JSON.stringify(value) ?? 'undefined';
}

function formatError(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const stack =
    'stack' in error && typeof error.stack === 'string' ? error.stack : JSON.stringify(error);
  return `\n    ${stack.replaceAll('\n', '\n    ')}`;
}
