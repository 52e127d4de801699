// What the tests of single requests share. Only tests import it.
import type { RunHost } from './run.ts';

/** Takes everything and says nothing. */
export const silentHost: RunHost = {
  deliver() {},
  stepped() {},
  fetchEnded() {},
  transferOf: () => undefined,
  brokeOff() {},
};

/** A piece of a stream with one token. */
export const oneToken = Buffer.from(
  'data: {"choices":[{"token_ids":[7],"finish_reason":null}]}\n\n',
);
