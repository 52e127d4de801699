// Health check of a container: `node ready.ts <url>` exits with 0 when the URL answers 2xx within the limit, otherwise with 1 and
// the reason, which `docker inspect` shows.
const LIMIT_MS = 3_000;
const SHOWN_CHARS = 500;

const [url = ''] = process.argv.slice(2);
try {
  const response = await fetch(url, { signal: AbortSignal.timeout(LIMIT_MS) });
  if (!response.ok) {
    process.stdout.write(`${response.status} ${(await response.text()).slice(0, SHOWN_CHARS)}\n`);
    process.exitCode = 1;
  }
} catch (error) {
  process.stdout.write(`${url}: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
