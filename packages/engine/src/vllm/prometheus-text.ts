export interface Sample {
  labels: ReadonlyMap<string, string>;
  value: number;
}

const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** All samples of one metric in Prometheus' text format. */
export function readSamples(text: string, name: string): Sample[] {
  const samples: Sample[] = [];
  let at = text.indexOf(name);
  while (at !== -1) {
    const end = text.indexOf('\n', at);
    const line = text.slice(at, end === -1 ? text.length : end);
    const next = line[name.length];
    const isOwn = (at === 0 || text[at - 1] === '\n') && (next === '{' || next === ' ');
    if (isOwn) samples.push(readSample(line.slice(name.length)));
    at = text.indexOf(name, at + line.length);
  }
  return samples;
}

/** The sum of one metric over all its labels; undefined when it is not there. */
export function sumOf(text: string, name: string): number | undefined {
  const samples = readSamples(text, name);
  return samples.length === 0 ? undefined : samples.reduce((sum, { value }) => sum + value, 0);
}

function readSample(rest: string): Sample {
  const labelsEnd = rest.lastIndexOf('}');
  const labels = new Map<string, string>();
  for (const [, label = '', value = ''] of rest.slice(0, labelsEnd + 1).matchAll(LABEL)) {
    labels.set(
      label,
      value.replaceAll(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c)),
    );
  }
  return {
    labels,
    value: Number(
      rest
        .slice(labelsEnd + 1)
        .trim()
        .split(' ')[0],
    ),
  };
}
