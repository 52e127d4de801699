// `node fake-serve.testing.ts serve MODEL ...` in the place of `vllm serve`. Only tests run it.
import { spawn } from 'node:child_process';
import { z } from 'zod';
import { FakeVllm } from '../fake-vllm.testing.ts';
import { flagValue } from './serve-args.ts';

const args = process.argv.slice(2);
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const failure = flagValue(args, '--fail');
if (args.includes('--never-ready')) setInterval(() => {}, 1_000);
else if (failure === undefined) await serve();
else {
  say('(EngineCore pid=7) ERROR 11-30 02:11:26 [core.py:900] Traceback (most recent call last):');
  say(`(EngineCore pid=7) ERROR 11-30 02:11:26 [core.py:900] ${failure}`);
  say('RuntimeError: Engine core initialization failed. See root cause above.');
  process.exitCode = 1;
}

async function serve(): Promise<void> {
  // A worker process that nobody would end but its group.
  spawn('sleep', ['3600'], { stdio: 'ignore' });
  say('(EngineCore pid=7) INFO 11-30 02:11:26 [x.py:1] Starting to load model tiny...');
  const config = flagValue(args, '--kv-events-config');
  const events =
    config === undefined
      ? undefined
      : z
          .object({ endpoint: z.string(), replay_endpoint: z.string(), topic: z.string() })
          .parse(JSON.parse(config));
  await FakeVllm.start({
    blockSize: Number(flagValue(args, '--block-size') ?? 16),
    kvBlocks: 64,
    contextTokens: Number(flagValue(args, '--max-model-len') ?? 512),
    port: Number(flagValue(args, '--port')),
    hasScaleOut: args.includes('--enable-scale-out'),
    ...(events === undefined
      ? {}
      : {
          events: {
            endpoint: events.endpoint,
            replayEndpoint: events.replay_endpoint,
            topic: events.topic,
          },
        }),
  });
}
