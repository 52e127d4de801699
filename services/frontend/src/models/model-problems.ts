import { invalid, type Problem } from '@busbar/openai';
import { limit } from '@busbar/protocol';
import { FrontendError } from '../errors.ts';
import { problemOf } from '../http/error-response.ts';

/** 404: nobody has ever served this name here. */
export function unknownModel(name: string): Problem {
  const message = `The model "${shown(name)}" does not exist.`;
  return invalid(message, 'model', 'model_not_found', 404);
}

/** 503: the name is known or may become so, and `reason` says what is missing to answer for it. */
export function unavailableModel(name: string, reason: string): Problem {
  const message = `The model "${shown(name)}" cannot answer now: ${reason}.`;
  return { ...problemOf(new FrontendError('FRONTEND_MODEL_UNAVAILABLE', message)), param: 'model' };
}

function shown(name: string): string {
  return name.slice(0, limit('modelNameChars'));
}
