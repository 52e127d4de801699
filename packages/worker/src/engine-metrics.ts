import type { Clock } from '@busbar/base';
import type { Engine } from '@busbar/engine';

/** An engine that is slow to answer must not keep Prometheus from this worker's own figures. */
const LIMIT_MS = 1_000;
/** Several readers, or one that is impatient, cost the engine one page. */
const FRESH_MS = 1_000;
const MAX_CHARS = 4_194_304;

const HEAD = /^# (?:HELP|TYPE) ([a-zA-Z_:][\w:]*)(?: |$)/;
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? +(\S+(?: +-?\d+)?)$/;
const SUFFIX = /_(?:bucket|sum|count|total|created)$/;

/**
 * The text of another process's metrics with more labels on each sample. Families in `taken` are left out: no page may have
 * one twice. So is every line that is none of Prometheus' text format.
 */
export function relabel(
  text: string,
  labels: Readonly<Record<string, string>>,
  taken: (family: string) => boolean,
): string {
  const added = Object.entries(labels)
    .map(([name, value]) => `${name}="${value.replace(/[\\"\n]/g, escapeChar)}"`)
    .join(',');
  const lines: string[] = [];
  for (const line of text.slice(0, MAX_CHARS).split('\n')) {
    const head = HEAD.exec(line);
    const sample = head === null ? SAMPLE.exec(line) : null;
    const [, name = '', own = '', value = ''] = head ?? sample ?? [];
    if (name === '' || taken(name) || taken(name.replace(SUFFIX, ''))) continue;
    if (head !== null) lines.push(line);
    else if (Number.isNaN(readValue(value))) continue;
    else lines.push(`${name}{${added}${own === '' ? '' : `,${own}`}} ${value}`);
  }
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

function escapeChar(char: string): string {
  return char === '\n' ? '\\n' : `\\${char}`;
}

/** A number that is none only where the text says so. */
function readValue(text: string): number {
  const [value = ''] = text.split(' ');
  if (/^[+-]?inf$|^nan$/i.test(value)) return 0;
  return value === '' ? Number.NaN : Number(value);
}

export interface EngineMetricsOptions {
  engine: Engine;
  clock: Clock;
  labels: Readonly<Record<string, string>>;
  taken: (family: string) => boolean;
}

/** The engine's own metrics for this worker's page, read at most once a second. Empty when the engine has none or is too slow. */
export class EngineMetrics {
  readonly #options: EngineMetricsOptions;
  #readAtMs = -Infinity;
  #text: Promise<string> = Promise.resolve('');

  constructor(options: EngineMetricsOptions) {
    this.#options = options;
  }

  text(): Promise<string> {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs - this.#readAtMs >= FRESH_MS) {
      this.#readAtMs = nowMs;
      this.#text = this.#read();
    }
    return this.#text;
  }

  async #read(): Promise<string> {
    const { engine, labels, taken } = this.#options;
    if (engine.metricsText === undefined) return '';
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<string>((resolve) => {
      timer = setTimeout(() => resolve(''), LIMIT_MS);
    });
    try {
      const text = await Promise.race([engine.metricsText(), late]);
      return relabel(text, labels, taken);
    } catch {
      return '';
    } finally {
      clearTimeout(timer);
    }
  }
}
