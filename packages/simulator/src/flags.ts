import { SimulatorError } from './errors.ts';

/** The named ones of a comma list, in its order; all without a list or with `all`. */
export function choose<T>(
  flag: string,
  text: string | undefined,
  all: readonly T[],
  nameOf: (choice: T) => string,
): T[] {
  if (text === undefined || text === 'all') return [...all];
  return text.split(',').map((name) => {
    const found = all.find((choice) => nameOf(choice) === name);
    if (found !== undefined) return found;
    throw usage(`no ${flag} "${name}"; there are ${all.map(nameOf).join(', ')}`);
  });
}

export function wholeNumber(flag: string, text: string, least: number): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least) return value;
  throw usage(`--${flag} takes whole numbers from ${least}, not "${text}"`);
}

export function positiveNumber(flag: string, text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw usage(`--${flag} takes a number above 0, not "${text}"`);
}

export function usage(message: string): SimulatorError {
  return new SimulatorError('SIMULATOR_USAGE', message);
}
