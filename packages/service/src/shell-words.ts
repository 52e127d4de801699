import { messageOf } from '@busbar/base';
import { split } from 'shlex';
import { ServiceError } from './errors.ts';

/** The words of a setting, quoted as in a shell. No shell sees them and nothing is expanded. Throws SERVICE_CONFIG. */
export function shellWords(variable: string, text: string | undefined): string[] {
  if (text === undefined) return [];
  try {
    return split(text);
  } catch (error) {
    const message = `${variable} cannot be read as words: ${messageOf(error)}.`;
    throw new ServiceError('SERVICE_CONFIG', message, { cause: error });
  }
}
