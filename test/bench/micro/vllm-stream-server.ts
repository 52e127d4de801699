import { createServer, type ServerResponse } from 'node:http';

/**
 * Streams as a vLLM does whose steps take a millisecond: one chunk for each stream and step, in vLLM's own form. A process of its
 * own, so that its CPU is not counted.
 */
const STEP_MS = 1;
const CHUNK =
  'data: {"request_id":"generate-tokens-0123456789abcdef","usage":null,"output_mode":"tokens","choices":[{"index":0,"finish_reason":null,"stop_reason":null,"token_ids":[31337],"routed_experts":null,"sampling_mask":null,"weight_versions":null,"logprobs":null}]}\n\n';
const LAST = CHUNK.replace('"finish_reason":null', '"finish_reason":"length"');
const USAGE =
  'data: {"request_id":"r","usage":{"prompt_tokens":64,"total_tokens":65,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":48}},"output_mode":"tokens","choices":[]}\n\ndata: [DONE]\n\n';
const METRICS =
  'vllm:cache_config_info{block_size="16",num_gpu_blocks="8192",enable_prefix_caching="True",engine="0"} 1.0\n';
const MODEL = { id: 'bench', root: '/models/bench', parent: null, max_model_len: 32_768 };

const open = new Map<ServerResponse, number>();
const server = createServer((request, response) => {
  if (request.method === 'GET') return answer(request.url ?? '', response);
  let text = '';
  request.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  request.on('end', () => {
    const tokens = Number(/"max_tokens":(\d+)/.exec(text)?.[1] ?? 0);
    if (tokens === 0) response.writeHead(400).end('{}');
    else {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      open.set(response, tokens);
    }
  });
});

setInterval(() => {
  for (const [response, left] of open) {
    response.write(left > 1 ? CHUNK : LAST);
    open.set(response, left - 1);
    if (left > 1) continue;
    open.delete(response);
    response.end(USAGE);
  }
}, STEP_MS);
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.(typeof address === 'object' ? address?.port : 0);
});
process.on('disconnect', () => process.exit());

function answer(path: string, response: ServerResponse): void {
  const answers: Record<string, string> = {
    '/version': JSON.stringify({ version: '0.32.0' }),
    '/v1/models': JSON.stringify({ data: [MODEL] }),
    '/metrics': METRICS,
    '/health': '',
  };
  const text = answers[path];
  response.writeHead(text === undefined ? 404 : 200).end(text ?? '{}');
}
