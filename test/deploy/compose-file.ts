import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

export const root = join(import.meta.dirname, '../..');

const healthcheckSchema = z.object({
  test: z.array(z.string()).min(2),
  interval: z.string(),
  timeout: z.string(),
  retries: z.number(),
  start_period: z.string(),
});

/** The part of a service that the rules speak of. Commands must be lists: a string would be run by a shell. */
const serviceSchema = z.object({
  image: z.string(),
  entrypoint: z.array(z.string()).optional(),
  command: z.array(z.string()),
  init: z.literal(true),
  restart: z.string(),
  stop_grace_period: z.string(),
  environment: z.record(z.string(), z.string().nullable()).default({}),
  healthcheck: healthcheckSchema,
  depends_on: z.record(z.string(), z.object({ condition: z.string() })).default({}),
  ports: z.array(z.string()).default([]),
  /** Not started unless one of them is asked for. */
  profiles: z.array(z.string()).default([]),
  volumes: z.array(z.string()).default([]),
  /** A fixed name would forbid a second container. */
  container_name: z.never().optional(),
});
export type ComposeService = z.infer<typeof serviceSchema>;

const composeSchema = z.object({
  services: z.record(z.string(), serviceSchema),
  volumes: z.record(z.string(), z.unknown()),
});
export type ComposeFile = z.infer<typeof composeSchema>;

/** Reads docker-compose.yml with its anchors merged and every `${NAME:-value}` at its default. */
export function readComposeFile(): ComposeFile {
  const text = readText('docker-compose.yml').replace(/\$\{\w+:-([^}]*)\}/g, '$1');
  return composeSchema.parse(parse(text, { merge: true }));
}

export function readText(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Milliseconds of a compose duration such as `1m30s`. */
export function durationMs(text: string): number {
  const unitMs: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
  if (!/^(?:\d+(?:ms|s|m|h))+$/.test(text)) throw new Error(`${text} is no duration`);
  return [...text.matchAll(/(\d+)(ms|s|m|h)/g)].reduce(
    (sum, [, count, unit = '']) => sum + Number(count) * (unitMs[unit] ?? Number.NaN),
    0,
  );
}

/** Sizes that nats.conf gives, by their key; `1MB` is 1,048,576 bytes there. */
export function natsSizes(): Map<string, number> {
  const unitBytes: Record<string, number> = { KB: 2 ** 10, MB: 2 ** 20, GB: 2 ** 30 };
  const lines = readText('infra/nats/nats.conf').matchAll(/^\s*(\w+):\s*(\d+)(KB|MB|GB)\s*$/gm);
  return new Map(
    [...lines].map(([, key = '', count, unit = '']) => [
      key,
      Number(count) * (unitBytes[unit] ?? Number.NaN),
    ]),
  );
}
