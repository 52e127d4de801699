import { messageOf } from '@busbar/base';

const POLL_MS = 10;

/**
 * Polls `predicate` until it answers something truthy, and resolves with that. A throw counts as "not yet". Rejects
 * after `timeoutMs` with `what` and the last error.
 */
export async function waitFor<T>(
  predicate: () => T | Promise<T>,
  timeoutMs: number,
  what: string,
): Promise<Exclude<T, undefined | null | false | 0 | ''>> {
  const deadline = performance.now() + timeoutMs;
  let lastError = '';
  do {
    try {
      const result = await predicate();
      if (isTruthy(result)) return result;
      lastError = '';
    } catch (error) {
      lastError = ` (last error: ${messageOf(error)})`;
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  } while (performance.now() < deadline);
  throw new Error(`${what}: not within ${timeoutMs} ms${lastError}`);
}

function isTruthy<T>(value: T): value is Exclude<T, undefined | null | false | 0 | ''> {
  return Boolean(value);
}
