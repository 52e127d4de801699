import { readLoras } from './engine-facts.ts';
import { VllmError } from './errors.ts';
import { sumOf } from './prometheus-text.ts';
import { readErrorBody } from './serving/answer.ts';
import { requestBody, TOKEN_API_PATHS } from './serving/request-body.ts';
import type { Session } from './session.ts';
import type { VllmHttp } from './vllm-http.ts';

const SLEEP_TIMEOUT_MS = 120_000;
const LORA_TIMEOUT_MS = 120_000;
const TRIES = 3;
const PAUSE_MS = 500;
/** The time at which the process made this counter: another one is another process. */
const INCARNATION = 'vllm:prompt_tokens_created';
const EXPIRED_TOTAL = 'vllm:nixl_num_kv_expired_reqs_total';

/** Sends a command; resolves to its answer. Rejects with VllmError, which quotes the engine. */
async function command(
  http: VllmHttp,
  path: string,
  body?: unknown,
  timeoutMs?: number,
): Promise<string> {
  const { status, text } = await http.exchange('POST', path, body, timeoutMs);
  if (status === 200) return text;
  const { message } = readErrorBody(status, text);
  throw new VllmError('VLLM_COMMAND', `${path} answers ${status}: ${message}`);
}

/** Loads an adapter; resolves to the names of all that are loaded. */
export async function loadLora(http: VllmHttp, name: string, path: string): Promise<string[]> {
  const body = { lora_name: name, lora_path: path };
  await command(http, '/v1/load_lora_adapter', body, LORA_TIMEOUT_MS);
  return readLoras(http);
}

/** Unloads an adapter; resolves to the names of those that are left. */
export async function unloadLora(http: VllmHttp, name: string): Promise<string[]> {
  await command(http, '/v1/unload_lora_adapter', { lora_name: name }, LORA_TIMEOUT_MS);
  return readLoras(http);
}

/** Frees the accelerator's memory; requests that run are the caller's to end before. */
export async function putToSleep(http: VllmHttp, level: 1 | 2): Promise<void> {
  await command(http, `/sleep?level=${level}`, undefined, SLEEP_TIMEOUT_MS);
}

/** Resolves when requests can be taken again. */
export async function wakeUp(http: VllmHttp): Promise<void> {
  await command(http, '/wake_up', undefined, SLEEP_TIMEOUT_MS);
}

/** Drops the prefix cache. Rejects when blocks are in use, and where the engine has no such route. */
export async function resetPrefixCache({ http, kv, tokenApi, facts }: Session): Promise<void> {
  const answer = await command(http, '/reset_prefix_cache');
  if (/"success":\s*false/.test(answer)) {
    throw new VllmError('VLLM_COMMAND', 'vLLM keeps its cache while blocks of requests are in use');
  }
  if (kv === undefined) return;
  // KV events only leave with an engine step: without another request nobody would hear of the reset.
  const body = requestBody(
    {
      key: 0,
      tokens: Uint32Array.of(0),
      maxTokens: 1,
      minTokens: 0,
      ignoreEos: true,
      stopTokenIds: [],
      sampling: {},
    },
    { api: tokenApi, model: facts.servedName },
  );
  await http.exchange('POST', TOKEN_API_PATHS[tokenApi], JSON.parse(body));
}

/** All of the engine's metrics as Prometheus text. */
export async function metricsText(http: VllmHttp): Promise<string> {
  return (await http.exchange('GET', '/metrics')).text;
}

/** When the engine's process began, in its own words; undefined when it does not say. */
export async function readIncarnation(http: VllmHttp): Promise<number | undefined> {
  return sumOf(await metricsText(http), INCARNATION);
}

/** Requests whose staged KV nobody fetched in time. */
export async function readExpiredTotal(http: VllmHttp): Promise<number | undefined> {
  return sumOf(await metricsText(http), EXPIRED_TOTAL);
}

/** Whether the engine answers, in some tries, that it is well. */
export async function isReachable(http: VllmHttp): Promise<boolean> {
  for (let attempt = 0; attempt < TRIES; attempt++) {
    if (attempt > 0) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    const answer = await http.exchange('GET', '/health').catch(() => undefined);
    if (answer?.status === 200) return true;
  }
  return false;
}
