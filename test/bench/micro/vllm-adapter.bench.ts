import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { createVllmEngine, type Engine, type EngineSink } from '@busbar/engine';
import { report } from './measure.ts';

/**
 * What engine vllm costs above a bare HTTP client that reads the same streams: CPU of this process for each chunk of tokens, the server
 * being another process. The bare client counts bytes and does not look at them.
 */
const STREAMS = 32;
const TOKENS = 1_500;
const REPEATS = 5;
const PROMPT = Uint32Array.from({ length: 64 }, (_, i) => i + 1);

const server = fork(new URL('vllm-stream-server.ts', import.meta.url), { stdio: 'inherit' });
const [port] = await once(server, 'message');
const url = `http://127.0.0.1:${Number(port)}`;

const vllm = createVllmEngine({
  role: 'decode',
  engine: { kind: 'attach', url },
  kvEvents: false,
  clock: { monotonicMs: () => performance.now(), wallMs: () => Date.now() },
});
const heard = { steps: 0, open: 0, tokens: 0, done: (): void => {} };
await vllm.start(sinkOf(), new AbortController().signal);
const agent = new Agent({ keepAlive: true });

for (const streams of [1, STREAMS]) {
  const bare: number[] = [];
  const adapter: number[] = [];
  const steps: number[] = [];
  await readBare(streams);
  await readAdapter(vllm, streams);
  for (let i = 0; i < REPEATS; i++) {
    const chunks = streams * TOKENS;
    bare.push((await cpuMicros(() => readBare(streams))) / chunks);
    heard.steps = 0;
    adapter.push((await cpuMicros(() => readAdapter(vllm, streams))) / chunks);
    steps.push(chunks / heard.steps);
  }
  const name = `${streams} stream${streams === 1 ? '' : 's'}`;
  report(`${name}: bare client, each token chunk`, 'us CPU', bare);
  report(`${name}: engine vllm, each token chunk`, 'us CPU', adapter);
  const added = adapter.map((value, i) => value - bare[i]!);
  report(`${name}: added by the adapter, each token chunk`, 'us CPU', added);
  report(`${name}: chunks gathered into one step`, 'chunks', steps);
}
await vllm.stop();
agent.destroy();
server.disconnect();

async function cpuMicros(run: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

async function readBare(streams: number): Promise<void> {
  const body = JSON.stringify({
    token_ids: [...PROMPT],
    sampling_params: { max_tokens: TOKENS },
    stream: true,
  });
  await Promise.all(
    Array.from({ length: streams }, async () => {
      const sent = request(`${url}/inference/v1/generate`, { agent, method: 'POST' });
      sent.end(body);
      const [response] = await once(sent, 'response');
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      await once(response, 'end');
      if (bytes === 0) throw new Error('the server sent nothing');
    }),
  );
}

async function readAdapter(engine: Engine, streams: number): Promise<void> {
  const done = new Promise<void>((resolve) => {
    Object.assign(heard, { open: streams, tokens: 0, done: resolve });
  });
  for (let key = 1; key <= streams; key++) {
    const result = engine.submit({
      key,
      tokens: PROMPT,
      maxTokens: TOKENS,
      minTokens: 0,
      ignoreEos: true,
      stopTokenIds: [],
      sampling: { temperature: 0 },
    });
    if (result.kind === 'refused') throw new Error(result.message);
  }
  await done;
  if (heard.tokens !== streams * TOKENS) throw new Error(`${heard.tokens} tokens`);
}

function sinkOf(): EngineSink {
  return {
    onStep: ({ deltas }) => {
      heard.steps++;
      for (const { tokens, finish } of deltas) {
        heard.tokens += tokens.length;
        if (finish !== 'none' && --heard.open === 0) heard.done();
      }
    },
    onKv: () => {},
    onCacheReset: () => {},
    onStagedEnd: () => {},
    onFetchBegin: () => {},
    onFetchEnd: () => {},
    onInfo: () => {},
    onFault: (error) => {
      throw error;
    },
  };
}
