import { startEngine, submit } from './kv-engine.ts';

/**
 * The prefill side of `transfer.bench.ts`, a process of its own: stages the prompt of each key that it is told, and says how to fetch it
 * and how much CPU this process has used so far, in microseconds. Without a key it says the latter alone.
 */
const engine = await startEngine('prefill', {
  staged: (key, transfer) => process.send?.({ key, transfer }),
  began: () => {},
  ended: () => {},
});
process.on('message', (key) => {
  if (typeof key === 'number') return submit(engine, key, { stageKv: { transferId: `t${key}` } });
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMicros: user + system });
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
