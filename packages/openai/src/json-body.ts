import { limit } from '@busbar/protocol';
import { type Checked, invalid, type Problem, refuse } from './problem.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const COMMA = 0x2c;

/**
 * Looks at raw JSON text before it is parsed: nesting, number of strings and number of values within the limits. Costs
 * one pass over the structure (texts are skipped by a native search) and ends at the first limit that breaks.
 */
export function findJsonBomb(text: string): Problem | undefined {
  const maxDepth = limit('jsonDepth');
  const maxStrings = limit('jsonStrings');
  const maxValues = limit('jsonValues');
  let depth = 0;
  let strings = 0;
  let values = 1;
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        i = endOfString(text, i);
        if (++strings > maxStrings) return tooMuch(`more than ${maxStrings} strings`);
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        if (++depth > maxDepth) return tooMuch(`nesting deeper than ${maxDepth} levels`);
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth--;
        break;
      case COMMA:
        if (++values > maxValues) return tooMuch(`more than ${maxValues} values`);
        break;
      default:
    }
  }
  return undefined;
}

/** Index of the quote that closes the string whose opening quote is at `start`; the end of the text when none does. */
function endOfString(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1);
  while (quote !== -1) {
    let slash = quote - 1;
    while (text.charCodeAt(slash) === BACKSLASH) slash--;
    if ((quote - slash) % 2 === 1) return quote;
    quote = text.indexOf('"', quote + 1);
  }
  return text.length;
}

function tooMuch(what: string): Problem {
  return invalid(`The request body has ${what}.`, null, 'body_too_complex');
}

/** Parses a request body into an object, after `findJsonBomb`. */
export function parseJsonObject(text: string): Checked<Record<string, unknown>> {
  const bomb = findJsonBomb(text);
  if (bomb !== undefined) return refuse(bomb);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refuse(invalid('The request body is not valid JSON.', null, 'invalid_json'));
  }
  if (!isObject(value)) {
    return refuse(invalid('The request body must be a JSON object.', null, 'invalid_json'));
  }
  return { ok: true, value };
}

/** True for a JSON object: neither null nor a list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
