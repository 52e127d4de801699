import type { CliContext } from './context.ts';
import type { StackState } from './stack/state.ts';
import { createTerminal } from './terminal/terminal.ts';

/** A context that keeps what a command writes. For tests. */
export function fakeContext(changes: Partial<CliContext> = {}): {
  context: CliContext;
  out: () => string;
  err: () => string;
} {
  let out = '';
  let err = '';
  const terminal = createTerminal(
    { write: (text) => (out += text) },
    { write: (text) => (err += text) },
    {},
  );
  const never = new AbortController().signal;
  const context: CliContext = {
    terminal,
    env: {},
    root: '/nowhere',
    signal: never,
    hurry: never,
    readLine: () => Promise.resolve(undefined),
    isInputTty: false,
    ...changes,
  };
  return { context, out: () => out, err: () => err };
}

/** What `busbar up` writes of a stack without processes. For tests. */
export function stackState(changes: Partial<StackState> = {}): StackState {
  return {
    version: 1,
    namespace: 'ns',
    host: '127.0.0.1',
    port: 1,
    model: 'm',
    policy: 'kv',
    natsUrl: '',
    drainMs: 0,
    isStopping: false,
    processes: [],
    ...changes,
  };
}
