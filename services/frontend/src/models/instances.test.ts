import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryNetwork } from '@busbar/bus';
import { encodeInstance, type Instance, instanceKey, type WorkerInfo } from '@busbar/protocol';
import { systemClock } from '@busbar/service';
import { until } from '@busbar/service/testing';
import { SCRIPTED_INFO } from '../scripted-stack.testing.ts';
import { Instances } from './instances.ts';

const worker: WorkerInfo = { ...SCRIPTED_INFO, model: 'm' };

test('a name that another process took tells that the one before is gone, before that process has an engine', async () => {
  const network = new MemoryNetwork();
  const bus = network.connect();
  const bucket = await bus.bucket('instances');
  const key = instanceKey('decode', 'd1');
  const heard: string[] = [];
  const instances = new Instances(
    {
      workerGone: (id) => heard.push(`gone ${id}`),
      workerRestarted: (id) => heard.push(`restarted ${id}`),
    },
    systemClock,
    (_, of) => heard.push(`unreadable ${of}`),
  );
  const put = (epoch: number, change: Pick<Instance, 'state' | 'worker'>) => {
    const fields = { protocol: 1, id: 'd1', pid: 1, host: 'h', startedAt: '', ...change };
    return bucket.put(key, encodeInstance({ ...fields, role: 'decode', epoch }));
  };
  await instances.watch(await network.connect().bucket('instances'));
  await put(1, { state: 'ready', worker });
  await until('the worker', () => instances.readyWorkers('m') === 1);
  await put(2, { state: 'starting' });
  await until('the restart', () => heard.length === 1);
  assert.equal(instances.readyWorkers('m'), 0);
  await put(2, { state: 'ready', worker });
  await until('the worker again', () => instances.readyWorkers('m') === 1);
  await bucket.put(key, Uint8Array.of(1));
  await until('the end', () => heard.length === 3);
  assert.deepEqual(heard, ['restarted d1', `unreadable ${key}`, 'gone d1']);
  assert.equal(instances.readyWorkers('m'), 0);
  instances.stop();
  await bus.close();
});
