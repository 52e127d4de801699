import { createParser } from 'eventsource-parser';

export interface SseEvent {
  event: string | undefined;
  data: string;
  /** When it arrived, on the clock of `performance.now()`. */
  atMs: number;
}

/** The server-sent events of an HTTP response as they come; ends with the response. Comments are left out. */
export async function* readSse(response: Response): AsyncGenerator<SseEvent> {
  const arrived: SseEvent[] = [];
  const parser = createParser({
    onEvent: ({ event, data }) => arrived.push({ event, data, atMs: performance.now() }),
  });
  if (response.body === null) return;
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    parser.feed(chunk);
    yield* arrived.splice(0);
  }
}
