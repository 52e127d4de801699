/** `error.type` of the OpenAI API. */
export type ProblemType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'rate_limit_error'
  | 'server_error';

/** Why a request is not answered, as the client gets to see it. */
export interface Problem {
  status: number;
  type: ProblemType;
  message: string;
  /** The field at fault, e.g. `messages[2].content`; null when no single field is. */
  param: string | null;
  code: string | null;
}

/** A client's mistake: 400 unless another status is given. */
export function invalid(
  message: string,
  param: string | null = null,
  code = 'invalid_value',
  status = 400,
): Problem {
  return { status, type: 'invalid_request_error', message, param, code };
}

/** The body of every error answer: `{"error":{message,type,param,code}}`. */
export function errorBody(problem: Problem): string {
  const { message, type, param, code } = problem;
  return JSON.stringify({ error: { message, type, param, code } });
}

/** The value, or the problem that kept it from being one. */
export type Checked<T> = { ok: true; value: T } | { ok: false; problem: Problem };

export function refuse(problem: Problem): { ok: false; problem: Problem } {
  return { ok: false, problem };
}
