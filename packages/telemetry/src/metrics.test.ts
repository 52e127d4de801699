import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Counter } from 'prom-client';
import { createRegistry } from './metrics.ts';

test('every metric carries role and id; process and loop figures are there', async () => {
  const registry = createRegistry({ role: 'router', id: 'router-1' });
  const counter = new Counter({ name: 'busbar_router_x_total', help: 'x', registers: [registry] });
  counter.inc();
  const text = await registry.metrics();
  assert.match(text, /busbar_router_x_total\{role="router",id="router-1"\} 1/);
  assert.match(text, /process_resident_memory_bytes\{[^}]*\} \d+/);
  assert.match(text, /nodejs_eventloop_lag_p99_seconds\{/);
  const other = createRegistry({ role: 'router', id: 'router-2' });
  assert.doesNotMatch(await other.metrics(), /busbar_router_x_total/);
});

test('the lag of an idle loop is not the distance of its samples', async () => {
  const registry = createRegistry({ role: 'router', id: 'router-1' });
  const read = (text: string, figure: string): number =>
    Number(text.match(new RegExp(`^nodejs_eventloop_lag_${figure}_seconds.* (.*)$`, 'm'))?.[1]);
  let text = await registry.metrics();
  for (let look = 0; look < 10 && !(read(text, 'max') > 0); look++) {
    await sleep(1_200);
    text = await registry.metrics();
  }
  assert.ok(read(text, 'max') > 0, 'no sample was taken');
  assert.ok(read(text, 'min') < 0.25, text);
});
