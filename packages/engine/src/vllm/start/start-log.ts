const TAIL_LINES = 200;
const LINE_CHARS = 2_000;

/** What vLLM puts before its own lines: the process, the level, the time and the place. */
const PREFIX = /^(?:\([^)]*\) )?(?:[A-Z]+ [\d-]+ [\d:]+ \[[^\]]*\] )?/;
/** An exception as Python prints it: the lines of the source that it quotes are indented. */
const EXCEPTION = /^((?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)): (.+)/;
/** These only say that another process had the error. */
const ECHO =
  /Engine core initialization failed|EngineCore failed to start|WorkerProc initialization failed/;
const ARGUMENT_ERROR = /\berror: (.+)/;
const HINTS: readonly (readonly [RegExp, string])[] = [
  [
    /Error 80[34]|cudaErrorInsufficientDriver|driver version is insufficient|forward compatibility was attempted/i,
    "the NVIDIA driver is older than this build's CUDA: update the driver or install a build for its CUDA",
  ],
  [
    /no kernel image is available|cudaErrorNoKernelImageForDevice/i,
    'this build has no code for this GPU model: install one that has',
  ],
  [
    /CUDA out of memory|No available memory for the cache blocks|less than desired GPU memory utilization/i,
    'the memory of the GPU does not suffice: look for leftover processes, or lower --gpu-memory-utilization or --max-model-len',
  ],
  [
    /Address already in use|EADDRINUSE|Errno 98/i,
    'a port is taken: another engine may still run here',
  ],
  [
    /No such file or directory|is not a local folder and is not a valid model identifier|LocalEntryNotFoundError|OfflineModeIsEnabled/i,
    'the model is not there: check its path, or let the host reach the hub',
  ],
  [
    /To serve at least one request|max seq len .* is larger than the maximum number of tokens/i,
    'the KV cache is too small for the context: lower --max-model-len or give it more memory',
  ],
];

/** What a child wrote until now: bounded, with the first line that tells what went wrong. */
export class StartLog {
  #tail: string[] = [];
  #first: string | undefined;
  #firstArgument: string | undefined;

  add(line: string): void {
    const cut = line.slice(0, LINE_CHARS);
    this.#tail.push(cut);
    if (this.#tail.length > TAIL_LINES) this.#tail.shift();
    if (this.#first === undefined && !ECHO.test(cut)) {
      const match = EXCEPTION.exec(cut.replace(PREFIX, ''));
      if (match !== null) this.#first = `${match[1]}: ${match[2]}`;
    }
    this.#firstArgument ??= ARGUMENT_ERROR.exec(cut)?.[1];
  }

  get tail(): readonly string[] {
    return this.#tail;
  }

  /** One sentence: the root cause, and what to do where that is known. Python prints it far above the last line. */
  rootCause(): string {
    const cause =
      this.#first ?? this.#firstArgument ?? this.#tail.findLast((line) => line.trim() !== '');
    if (cause === undefined) return 'it wrote nothing';
    const hint = HINTS.find(
      ([pattern]) => pattern.test(cause) || this.#tail.some((line) => pattern.test(line)),
    );
    const text = cause.trim().slice(0, 500);
    return hint === undefined ? text : `${text} (${hint[1]})`;
  }
}

const PHASES: readonly RegExp[] = [
  /Starting to load model/,
  /Loading (?:safetensors|weights|model weights)/,
  /Model loading took/,
  /GPU KV cache size|CPU KV cache size|KV cache size/,
  /Capturing CUDA graph|Graph capturing finished/,
  /Starting vLLM (?:API server|server)/,
];

/** The part of a line that a person who waits wants to see; undefined for all other lines. */
export function progressOf(line: string): string | undefined {
  const match = PHASES.map((pattern) => pattern.exec(line)).find((each) => each !== null);
  return match === undefined ? undefined : line.slice(match.index, match.index + 160).trim();
}
