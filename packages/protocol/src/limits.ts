/** Limits of the wire and of one request. Each has its reason beside it; `docs/reference/limits.md` is made from this. */
export const LIMITS = {
  /** Payload of one bus message; NATS's default max_payload is 1 MiB, the rest is room for header and subject. */
  messageBytes: { value: 900_000, reason: 'below the 1 MiB max_payload of a default nats-server' },
  /** Prompt tokens of one request whatever the model says: 4 MB of token ids, five bus messages. */
  promptTokens: { value: 1_000_000, reason: 'bounds one request to a few bus messages' },
  /** Output tokens of one request. */
  outputTokens: { value: 1_000_000, reason: 'max_tokens above it is a mistake' },
  /** HTTP body. */
  bodyBytes: {
    value: 16_777_216,
    reason: 'a million tokens of text is about 5 MB; above 16 MiB is not a prompt',
  },
  /** HTTP bodies that one frontend reads at the same time; large ones that come on top answer 429. */
  openBodyBytes: {
    value: 268_435_456,
    reason: 'sixteen of the largest bodies; a thousand slow senders of them would fill any memory',
  },
  /** Messages of one chat. */
  messages: { value: 4_096, reason: 'agents send hundreds; each costs template time' },
  /** Candidates of one request (`n`). */
  candidates: { value: 16, reason: 'each candidate is a full request to the engine' },
  /** Prompts in one completions request. */
  prompts: { value: 128, reason: 'each prompt is a full request to the engine' },
  /** Stop strings, as in the OpenAI API. */
  stopStrings: { value: 4, reason: "the OpenAI API's own limit" },
  stopStringChars: { value: 1_024, reason: 'every held-back text is searched for each of them' },
  /** Entries of `logit_bias`. */
  logitBias: { value: 1_024, reason: 'copied into each engine step' },
  tools: { value: 256, reason: 'each is rendered into the prompt' },
  jsonDepth: { value: 64, reason: 'deeper bodies are attacks on recursive code' },
  /** Strings, and values of any kind, in one body. */
  jsonStrings: { value: 131_072, reason: 'the largest chat within the other limits has fewer' },
  jsonValues: { value: 1_250_000, reason: 'a prompt of a million token ids and some room' },
  contentParts: { value: 1_024, reason: 'each part is joined into the text of its message' },
  toolCalls: { value: 128, reason: 'each is rendered into the prompt' },
  stopTokenIds: { value: 64, reason: 'compared with every token' },
  cacheSaltChars: { value: 512, reason: 'hashed into every block of the request' },
  /** Prompts times candidates of one HTTP request. */
  streamsPerRequest: { value: 128, reason: 'one request must not fill a worker' },
  /** Answer that a client has not read yet. */
  clientBufferBytes: { value: 4_194_304, reason: 'a client that is a whole answer behind is gone' },
  /** Time in which a client must take some of the answer that waits for it; otherwise it is cut off. */
  clientStallMs: {
    value: 60_000,
    reason: 'a client that reads nothing for a minute holds a socket and its buffer for nobody',
  },
  modelNameChars: { value: 128, reason: 'becomes a subject token of up to three times its bytes' },
  requestIdChars: { value: 128, reason: 'echoed in a header and in logs' },
  /** Requests in flight in one frontend; more answer 429. */
  frontendInFlight: { value: 4_096, reason: 'each holds a socket and its buffers, about 50 kB' },
  /** Requests waiting in one router; more answer 429. */
  routerQueue: { value: 4_096, reason: 'the wait would be longer than a client stays' },
  /** Requests that one worker accepts, running and waiting; more answer a retryable refusal. */
  workerInFlight: { value: 2_048, reason: 'eight times max_num_seqs of a usual engine' },
  /** Time a frontend waits for a placement. */
  routeTimeoutMs: {
    value: 5_000,
    reason: 'a decision takes microseconds; a longer wait means no router is well',
  },
  /** Time a frontend waits for a worker's acknowledgement. */
  workAckTimeoutMs: { value: 5_000, reason: 'the worker only checks and queues before it answers' },
  /** Time without a single token of any stream of a worker that answers when it is asked. */
  streamSilenceMs: {
    value: 60_000,
    reason: 'a worker that answers but sends no token for a minute is stuck',
  },
  /** What is added to it for each token of the longest prompt that waits for its first token. */
  slowPrefillMsPerToken: {
    value: 1,
    reason: 'a prefill of 100,000 tokens may take a minute and more, in which nothing comes',
  },
  /** Of the last cancels, so many at least are said again after an outage of the bus. */
  repeatedCancels: {
    value: 8_192,
    reason: 'both legs of all requests in flight; a stream whose cancel is lost ends by itself',
  },
  /** Placements tried for one request before it fails. */
  placementAttempts: { value: 4, reason: 'each attempt excludes the worker that failed' },
  /** Time to live of a lease and how often it is renewed. */
  leaseTtlMs: {
    value: 3_000,
    reason: 'three renewals may be lost before a process counts as gone',
  },
  leaseRenewMs: { value: 1_000, reason: 'a third of the time to live' },
  /** How long an expired lease may be away before what is known of its owner is dropped. */
  leaseGraceMs: {
    value: 1_500,
    reason: 'when NATS restarts, leases of living processes expire and come back a moment later',
  },
  /** So many new blocks of one sequence are told at once; fewer wait for the next heartbeat, and routers count on them until then. */
  kvEagerBlocks: {
    value: 8,
    reason: 'a prefill is worth a message, a block that a running sequence fills is not',
  },
  /** Heartbeat of a worker, and the silence after which routers stop choosing it. */
  loadIntervalMs: {
    value: 250,
    reason: 'routers know what they placed themselves; each beat wakes the bus and every router',
  },
  loadSilenceMs: { value: 900, reason: 'three heartbeats and some slack' },
  /** Silence of a worker after which a frontend that has streams there asks it for a sign of life. */
  tokenSilenceMs: {
    value: 450,
    reason: 'longer than a usual step; a question costs two messages, and clients wait meanwhile',
  },
  /** How long KV that was prefilled for another worker waits to be fetched. */
  stagedKvMs: {
    value: 20_000,
    reason:
      "well below the 30 s lease of vLLM's NixlConnector, behind which blocks are reused unseen",
  },
  /** A fetch of KV that takes longer is given up. */
  kvFetchMs: {
    value: 120_000,
    reason: '13 GB over 1 Gbit/s; a slower one helps nobody who waits for a first token',
  },
  /** Fetches that one decode worker runs at once; the others wait. */
  kvFetches: { value: 16, reason: 'a link that four of them share is full' },
  /** Bytes of one block of KV that is moved block by block. */
  kvBlockBytes: {
    value: 1_073_741_824,
    reason: 'the largest models keep megabytes for a token; a block above it is a mistake',
  },
  /** Bytes of the parameters of one transfer. */
  transferParamsBytes: {
    value: 262_144,
    reason:
      'block ids of a million tokens in blocks of 32 are about 200 kB; half of one message is left for the prompt',
  },
  /** Decision ids in one list of what a frontend holds; longer lists are several messages. */
  heldDecisions: {
    value: 4_096,
    reason: 'half of one message when ids are as long as they may be',
  },
  /** How often a frontend that places requests tells routers what it holds. */
  heldIntervalMs: {
    value: 10_000,
    reason:
      'messages to one router may be lost unseen; what is booked for nobody counts as load that long',
  },
  /** Bookings this old on a worker that runs and queues nothing are dropped. */
  forgottenBookingMs: {
    value: 60_000,
    reason:
      'nobody will end them; a net below the lists of what frontends hold, which may be lost as well',
  },
  /** Bookings that were never finished are dropped after this. */
  bookingTtlMs: {
    value: 600_000,
    reason: 'a frontend that lives always reports; this is the last net',
  },
} as const;

export type LimitName = keyof typeof LIMITS;

/** The value of one limit. */
export function limit(name: LimitName): number {
  return LIMITS[name].value;
}
