import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { SinkFlusher } from './sink-flusher.ts';
import { SseSink } from './sse-sink.ts';

/** Texts of an answer as a client reads them; each piece is written in a turn of its own. */
async function stream(model: string, pieces: readonly string[], fails = false): Promise<string> {
  const flusher = new SinkFlusher({ monotonicMs: () => 0, wallMs: () => 0 }, 60_000);
  const server = createServer((_, response) => {
    const head = { kind: 'chat' as const, id: 'c', created: 1, model };
    const sink = new SseSink(response, head, { flusher, includeUsage: false, nowMs: 0 });
    const write = (at: number): void => {
      const piece = pieces[at];
      if (piece !== undefined) {
        sink.text(0, piece);
        setImmediate(() => setImmediate(write, at + 1));
      } else if (fails) {
        sink.fail({ status: 500, type: 'server_error', code: 'x', message: 'größer', param: null });
      } else {
        sink.finish(0, 'stop');
        sink.complete({ promptTokens: 1, completionTokens: 1, cachedTokens: 0 });
      }
    };
    write(0);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const address = server.address();
    assert.ok(typeof address === 'object' && address !== null);
    return await (await fetch(`http://127.0.0.1:${address.port}`)).text();
  } finally {
    flusher.stop();
    server.close();
  }
}

function textOf(body: string): string {
  return [...body.matchAll(/"content":("(?:[^"\\]|\\.)*")/g)]
    .map(([, quoted]) => String(JSON.parse(quoted ?? '""')))
    .join('');
}

test('texts of any script arrive whole, between texts of plain ASCII', async () => {
  const pieces = ['Hello', ' Grüße', ', ', '日本語', ' and', ' 👍🏽', '!', '\u2028', ' end'];
  const body = await stream('m', pieces);
  assert.equal(textOf(body), pieces.join(''));
  assert.ok(body.endsWith('data: [DONE]\n\n'));
});

test('a model with a name beyond ASCII, and an error text beyond it', async () => {
  const body = await stream('modèle-日本', ['a', 'b'], true);
  assert.equal(textOf(body), 'ab');
  assert.ok(body.includes('"model":"modèle-日本"'));
  assert.ok(body.includes('größer') && body.endsWith('data: [DONE]\n\n'));
});
