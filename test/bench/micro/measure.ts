/** Prints one figure as a JSON line: the smallest and the median of its repetitions. */
export function report(name: string, unit: string, values: readonly number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  const min = round(sorted[0] ?? Number.NaN);
  const median = round(sorted[sorted.length >> 1] ?? Number.NaN);
  process.stdout.write(`${JSON.stringify({ name, unit, min, median, runs: values.length })}\n`);
}

/** Milliseconds that `run` takes. */
export function timeMs(run: () => void): number {
  const startMs = performance.now();
  run();
  return performance.now() - startMs;
}

/** Calls `run` `times` times and collects what it returns. */
export function repeat(times: number, run: (repetition: number) => number): number[] {
  return Array.from({ length: times }, (_, repetition) => run(repetition));
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}
