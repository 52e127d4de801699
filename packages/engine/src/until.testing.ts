import assert from 'node:assert/strict';

/** Far more than anything here takes, on a machine that has much else to do. */
const LIMIT_MS = 20_000;

/** Looks every few milliseconds whether something holds. Fails with `what` when it does not in time. Only tests import it. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + LIMIT_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < deadlineMs, `not within ${LIMIT_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
