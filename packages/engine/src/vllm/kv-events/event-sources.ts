import { z } from 'zod';
import type { KvEventSource } from './port.ts';

const WILDCARD = /^tcp:\/\/(?:\*|\[?::\]?):/;

const sourcesSchema = z.record(
  z.string().regex(/^\d{1,4}$/),
  z.object({
    enable_kv_cache_events: z.boolean(),
    publisher: z.string().nullish(),
    endpoint: z.string(),
    replay_endpoint: z.string().nullish(),
    topic: z.string().default(''),
  }),
);

/**
 * Reads the answer of `GET /kv_event_sources` (vLLM 0.31 and newer) of a server at `host`. Wildcards become `host`. Empty when
 * the engine publishes no events over ZMQ; throws ZodError for an answer of another shape.
 */
export function parseEventSources(
  answer: unknown,
  host: string,
): { sources: KvEventSource[]; topic: string } {
  const sources: KvEventSource[] = [];
  let topic = '';
  for (const [rank, source] of Object.entries(sourcesSchema.parse(answer))) {
    if (!source.enable_kv_cache_events || source.publisher !== 'zmq') continue;
    topic = source.topic;
    const replayEndpoint = source.replay_endpoint ?? undefined;
    sources.push({
      dpRank: Number(rank),
      endpoint: reachable(source.endpoint, host),
      // Without a wildcard a publisher connects, unless the address is what port 0 was resolved to.
      ...(!WILDCARD.test(source.endpoint) && { tryBind: true }),
      ...(replayEndpoint !== undefined && { replayEndpoint: reachable(replayEndpoint, host) }),
    });
  }
  return { sources, topic };
}

function reachable(endpoint: string, host: string): string {
  return endpoint.replace(WILDCARD, `tcp://${host}:`);
}
