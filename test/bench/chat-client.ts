import { Agent, request } from 'node:http';

/** How one streamed chat went, as a client sees it. */
export interface ChatSample {
  ttftMs: number;
  totalMs: number;
  /** SSE events that carried text. */
  chunks: number;
  /** Longest time between two of them. */
  maxGapMs: number;
  promptTokens: number;
  cachedTokens: number;
  /** Undefined when the stream ended as it must: a finish reason, then [DONE]. */
  error: string | undefined;
}

export interface ChatOptions {
  url: string;
  model: string;
  content: string;
  maxTokens: number;
  ignoreEos: boolean;
  includeUsage: boolean;
  agent: Agent;
  timeoutMs: number;
}

export function createAgent(): Agent {
  return new Agent({ keepAlive: true, maxSockets: 1024 });
}

/** Sends one streaming chat completion and reads it to its end. Never rejects: failures are in `error`. */
export function chat(options: ChatOptions): Promise<ChatSample> {
  const body = JSON.stringify({
    model: options.model,
    stream: true,
    max_tokens: options.maxTokens,
    ignore_eos: options.ignoreEos,
    ...(options.includeUsage ? { stream_options: { include_usage: true } } : {}),
    messages: [{ role: 'user', content: options.content }],
  });
  return new Promise((resolve) => {
    const started = performance.now();
    const sample: ChatSample = {
      ttftMs: 0,
      totalMs: 0,
      chunks: 0,
      maxGapMs: 0,
      promptTokens: 0,
      cachedTokens: 0,
      error: 'stream ended without [DONE]',
    };
    const end = (error?: string): void => {
      if (error !== undefined) sample.error = error;
      sample.totalMs = performance.now() - started;
      resolve(sample);
    };
    const call = request(
      `${options.url}/v1/chat/completions`,
      {
        method: 'POST',
        agent: options.agent,
        timeout: options.timeoutMs,
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
      },
      (response) => {
        let rest = '';
        const times = { started, last: 0 };
        response.setEncoding('utf8');
        response.on('data', (text: string) => {
          rest += text;
          const cut = rest.lastIndexOf('\n\n');
          if (cut < 0) return;
          readEvents(rest.slice(0, cut), sample, times);
          rest = rest.slice(cut + 2);
        });
        response.on('end', () =>
          end(
            response.statusCode === 200
              ? undefined
              : `${response.statusCode} ${rest.slice(0, 200)}`,
          ),
        );
        response.on('error', (error) => end(error.message));
      },
    );
    call.on('timeout', () => call.destroy(new Error('client timeout')));
    call.on('error', (error) => end(error.message));
    call.end(body);
  });
}

function readEvents(
  text: string,
  sample: ChatSample,
  times: { readonly started: number; last: number },
): void {
  for (const event of text.split('\n\n')) {
    if (!event.startsWith('data: ')) continue;
    if (event === 'data: [DONE]') {
      if (sample.error === 'stream ended without [DONE]') sample.error = undefined;
      continue;
    }
    if (event.startsWith('data: {"error"')) {
      sample.error = event.slice(0, 200);
      continue;
    }
    if (event.includes('"content":"') && !event.includes('"content":""')) {
      const now = performance.now();
      if (sample.chunks === 0) sample.ttftMs = now - times.started;
      else sample.maxGapMs = Math.max(sample.maxGapMs, now - times.last);
      times.last = now;
      sample.chunks++;
    }
    if (event.includes('"usage":{')) {
      const { usage } = JSON.parse(event.slice(6)) as {
        usage: { prompt_tokens: number; prompt_tokens_details?: { cached_tokens?: number } };
      };
      sample.promptTokens = usage.prompt_tokens;
      sample.cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0;
    }
  }
}

/** The value at quantile `q` of unsorted figures. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(q * (sorted.length - 1))] ?? 0;
}
