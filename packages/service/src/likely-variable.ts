import { distance } from 'fastest-levenshtein';

const PREFIX = 'BUSBAR_';
const NAMED_MAX = 3;

/**
 * The known variables that a person most likely meant by an unknown one, as words: `BUSBAR_A, BUSBAR_B or BUSBAR_C`. First what is
 * spelt nearly so, else what holds it whole (`BUSBAR_PORT` and `BUSBAR_HTTP_PORT`). Undefined when nothing is near.
 */
export function likelyVariable(name: string, known: readonly string[]): string | undefined {
  // The prefix is the same for all: with it, any two short names would be near each other.
  const wanted = stem(name);
  const spelt = known
    .map((candidate) => ({ candidate, distance: distance(wanted, stem(candidate)) }))
    .filter((entry) => entry.distance <= Math.max(1, Math.floor(wanted.length / 4)))
    .toSorted((a, b) => a.distance - b.distance);
  if (spelt[0] !== undefined) return spelt[0].candidate;
  const longer = [...new Set(known)]
    .filter((candidate) => `_${stem(candidate)}_`.includes(`_${wanted}_`))
    .toSorted((a, b) => a.length - b.length)
    .slice(0, NAMED_MAX);
  return longer.length === 0 ? undefined : inWords(longer);
}

function stem(name: string): string {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name;
}

function inWords(names: readonly string[]): string {
  if (names.length < 2) return names.join();
  return `${names.slice(0, -1).join(', ')} or ${names.at(-1)}`;
}
