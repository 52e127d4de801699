import { messageOf } from '@busbar/base';
import { split } from 'shlex';
import { ServiceError } from './errors.ts';

/** What the library says, and what that means to who wrote the setting. */
const PROBLEMS = [
  ['quoted string', 'a quote is opened and not closed'],
  ['escape sequence', 'nothing follows its last backslash'],
] as const;

/** The words of a setting, quoted as in a shell. No shell sees them and nothing is expanded. Throws SERVICE_CONFIG. */
export function shellWords(variable: string, text: string | undefined): string[] {
  if (text === undefined) return [];
  try {
    return split(text);
  } catch (error) {
    const reason = messageOf(error);
    const why = PROBLEMS.find(([part]) => reason.includes(part))?.[1] ?? reason;
    const message = `${variable} cannot be read as words: ${why}.`;
    throw new ServiceError('SERVICE_CONFIG', message, { cause: error });
  }
}
