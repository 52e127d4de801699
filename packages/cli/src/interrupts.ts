/** What `interrupts` needs of the process. */
interface Signals {
  on(event: NodeJS.Signals | 'disconnect', listener: () => void): unknown;
  channel?: { unref(): void } | null | undefined;
}

/** npm and a terminal may both deliver the same Ctrl-C; what comes later than this is a second one. */
const SAME_MS = 300;

/**
 * Two abort signals from SIGINT, SIGTERM, SIGHUP and the end of a parent that runs this command for another Node: `signal` at
 * the first, `hurry` at the second.
 */
export function interrupts(
  process: Signals,
  now: () => number = () => performance.now(),
): { signal: AbortSignal; hurry: AbortSignal } {
  const first = new AbortController();
  const second = new AbortController();
  let firstAtMs = 0;
  const onSignal = (): void => {
    if (!first.signal.aborted) {
      firstAtMs = now();
      first.abort();
    } else if (now() - firstAtMs > SAME_MS) second.abort();
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal);
  process.on('disconnect', onSignal);
  process.channel?.unref();
  return { signal: first.signal, hurry: second.signal };
}
