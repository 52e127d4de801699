/** Resolves after `ms`, or at once when `signal` fires. Never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal?.addEventListener('abort', finish, { once: true });
  });
}

/**
 * Asks again and again until `probe` answers something. Answers undefined when `timeoutMs` has passed or `signal` has fired; what
 * `probe` throws goes to the caller.
 */
export async function until<T>(
  probe: () => T | undefined | Promise<T | undefined>,
  options: { timeoutMs: number; everyMs: number; signal?: AbortSignal },
): Promise<T | undefined> {
  const deadline = performance.now() + options.timeoutMs;
  for (;;) {
    const value = await probe();
    if (value !== undefined) return value;
    if (options.signal?.aborted || performance.now() >= deadline) return undefined;
    await pause(options.everyMs, options.signal);
  }
}

/** Resolves when `signal` has fired. */
export function fired(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
