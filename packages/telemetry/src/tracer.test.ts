import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { parseTraceparent } from './traceparent.ts';
import { createTracer, NOOP_TRACER } from './tracer.ts';

interface WireSpan {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  status?: { code?: number; message?: string };
  attributes: { key: string; value: Record<string, unknown> }[];
}

test('without an endpoint nothing is traced and one shared span is handed out', async () => {
  const tracer = await createTracer({ endpoint: undefined, serviceName: 's', instanceId: 'i' });
  assert.equal(tracer, NOOP_TRACER);
  assert.equal(tracer.start('a'), tracer.start('b'));
  assert.equal(tracer.start('a').traceparent, undefined);
});

test('spans reach an OTLP receiver with the right parents, attributes and errors', async () => {
  const bodies: { path: string | undefined; json: string }[] = [];
  const sink = createServer((request, response) => {
    let json = '';
    request.on('data', (part: Buffer) => {
      json += part.toString('utf8');
    });
    request.on('end', () => {
      bodies.push({ path: request.url, json });
      response.setHeader('content-type', 'application/json').end('{}');
    });
  });
  await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = sink.address() as AddressInfo;
    const options = { endpoint: `http://127.0.0.1:${port}/`, exportDelayMs: 10 };
    const frontend = await createTracer({ ...options, serviceName: 'frontend', instanceId: 'f1' });
    const worker = await createTracer({ ...options, serviceName: 'decode', instanceId: 'd1' });
    const remote = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const request = frontend.start('request', remote, { model: 'm' });
    const decode = worker.start('decode', request.traceparent);
    decode.set({ outputTokens: 3 });
    decode.end(new Error('engine died'));
    request.end();
    frontend.start('root', 'nonsense').end();
    await Promise.all([frontend.shutdown(), worker.shutdown()]);

    const spans = bodies.flatMap((body) => {
      assert.equal(body.path, '/v1/traces');
      const parsed = JSON.parse(body.json) as {
        resourceSpans: { scopeSpans: { spans: WireSpan[] }[] }[];
      };
      return parsed.resourceSpans.flatMap((r) => r.scopeSpans.flatMap((s) => s.spans));
    });
    const byName = new Map(spans.map((span) => [span.name, span]));
    assert.deepEqual([...byName.keys()].toSorted(), ['decode', 'request', 'root']);
    const [requestSpan, decodeSpan] = [byName.get('request')!, byName.get('decode')!];
    assert.equal(requestSpan.traceId, '0af7651916cd43dd8448eb211c80319c');
    assert.equal(requestSpan.parentSpanId, 'b7ad6b7169203331');
    assert.equal(decodeSpan.traceId, requestSpan.traceId);
    assert.equal(decodeSpan.parentSpanId, requestSpan.spanId);
    assert.equal(parseTraceparent(request.traceparent)?.spanId, requestSpan.spanId);
    assert.deepEqual(decodeSpan.attributes, [{ key: 'outputTokens', value: { intValue: 3 } }]);
    assert.deepEqual(decodeSpan.status, { code: 2, message: 'engine died' });
    assert.ok(!byName.get('root')!.parentSpanId);
  } finally {
    sink.close();
  }
});

test('a parent that was not sampled is not recorded here either', async () => {
  const tracer = await createTracer({
    endpoint: 'http://127.0.0.1:9',
    serviceName: 's',
    instanceId: 'i',
  });
  const span = tracer.start('a', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00');
  assert.match(span.traceparent!, /^00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-00$/);
  span.end();
  await tracer.shutdown();
});
