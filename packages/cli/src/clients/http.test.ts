import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { test } from 'node:test';
import { chat } from '../commands/chat.ts';
import { sendProbe } from '../doctor/gather-probe.ts';
import { CliError } from '../errors.ts';
import { freePort } from '../host/ports.ts';
import { fakeContext } from '../testing.ts';

async function withApi(
  answer: (body: Record<string, unknown>, response: ServerResponse) => void,
  work: (url: string) => Promise<void>,
): Promise<void> {
  const server = createServer((request, response) => {
    if (request.url === '/v1/models') {
      response.end(JSON.stringify({ data: [{ id: 'first' }, { id: 'second' }] }));
      return;
    }
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => answer(JSON.parse(text), response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  try {
    await work(`http://127.0.0.1:${address.port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const chunk = (content: string): string =>
  `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;

test('a stream is shown piece by piece, whatever its bytes are cut at', async () => {
  const bytes = Buffer.from(`: keep-alive\n\n${chunk('Grüße ')}${chunk('👩‍👧')}data: [DONE]\n\n`);
  await withApi(
    (body, response) => {
      assert.equal(body['model'], 'first');
      assert.equal(body['stream'], true);
      for (let i = 0; i < bytes.length; i += 3) response.write(bytes.subarray(i, i + 3));
      response.end();
    },
    async (url) => {
      const fake = fakeContext();
      assert.equal(await chat(fake.context, 'hi', { url: `${url}/v1` }), 0);
      assert.equal(fake.out(), 'Grüße 👩‍👧\n');
    },
  );
});

test('a conversation carries what was said; a failed answer is told and left out', async () => {
  const asked: unknown[] = [];
  await withApi(
    (body, response) => {
      asked.push(body['messages']);
      if (asked.length === 2) {
        response.statusCode = 503;
        response.end(JSON.stringify({ error: { message: 'no worker is ready' } }));
      } else response.end(`${chunk(`answer ${asked.length}`)}data: [DONE]\n\n`);
    },
    async (url) => {
      const lines = ['one', 'two', '', 'three'];
      const fake = fakeContext({ readLine: () => Promise.resolve(lines.shift()) });
      assert.equal(await chat(fake.context, undefined, { url, model: 'm' }), 0);
      assert.match(fake.err(), /503: no worker is ready/);
      assert.deepEqual(asked[2], [
        { role: 'user', content: 'one' },
        { role: 'assistant', content: 'answer 1' },
        { role: 'user', content: 'three' },
      ]);
    },
  );
});

test('an error inside the stream, a stream without an end, and no server are errors', async () => {
  const cases: [string, RegExp][] = [
    ['data: {"error":{"message":"worker lost"}}\n\ndata: [DONE]\n\n', /worker lost/],
    [chunk('half'), /broke off/],
  ];
  for (const [text, message] of cases) {
    await withApi(
      (_, response) => response.end(text),
      async (url) => {
        await assert.rejects(
          chat(fakeContext().context, 'hi', { url, quick: true }),
          (error) => error instanceof CliError && message.test(error.message),
        );
      },
    );
  }
  await assert.rejects(
    chat(fakeContext().context, 'hi', { url: `http://127.0.0.1:${await freePort('127.0.0.1')}` }),
    /cannot be reached: .*ECONNREFUSED/,
  );
});

const TOO_LONG = { message: 'The context is 20 tokens.', code: 'context_length_exceeded' };

test('a quick answer is as long as the context lets it be', async () => {
  const asked: unknown[] = [];
  await withApi(
    (body, response) => {
      asked.push(body['max_tokens']);
      if (body['max_tokens'] === undefined) response.end(`${chunk('short')}data: [DONE]\n\n`);
      else response.writeHead(400).end(JSON.stringify({ error: TOO_LONG }));
    },
    async (url) => {
      const fake = fakeContext();
      assert.equal(await chat(fake.context, undefined, { url, quick: true }), 0);
      assert.equal(fake.out(), 'short\n');
    },
  );
  assert.deepEqual(asked, [32, undefined]);
});

test('a probe that does not fit into the context is not taken for an API that does not answer', async () => {
  await withApi(
    (_, response) => response.writeHead(400).end(JSON.stringify({ error: TOO_LONG })),
    async (url) => {
      const probe = await sendProbe(url, [], new AbortController().signal);
      assert.deepEqual(probe, { tooLong: '400: The context is 20 tokens.' });
    },
  );
});

test('--url that is no HTTP address is wrong usage', async () => {
  for (const url of ['nonsense', 'localhost:8000', 'ftp://host', '']) {
    await assert.rejects(
      chat(fakeContext().context, 'hi', { url }),
      (error) =>
        error instanceof CliError &&
        error.code === 'CLI_USAGE' &&
        error.message.endsWith(`not "${url}"`),
    );
  }
});
