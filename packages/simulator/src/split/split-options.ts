import { DEFAULT_KV_BYTES_PER_TOKEN } from '@busbar/mocker';
import { DISAGGREGATION_MODES, type DisaggregationMode, ROUTER_DEFAULTS } from '@busbar/routing';
import { choose, positiveNumber, usage, wholeNumber } from '../flags.ts';
import type { WorkerSpec } from '../workload.ts';

/** What a person asked for of prefill workers and links. */
export interface SplitOptions {
  prefillWorkers: number;
  /** Speed of the prefill workers against the profile. */
  prefillSpeed: number;
  prefillKvBlocks: number | undefined;
  linkGbits: readonly number[];
  modes: readonly DisaggregationMode[];
  thresholdTokens: number;
  kvBytesPerToken: number;
}

export const SPLIT_FLAGS = {
  prefill: { type: 'string' },
  'prefill-speed': { type: 'string' },
  'prefill-kv-blocks': { type: 'string' },
  'link-gbit': { type: 'string' },
  disaggregation: { type: 'string' },
  'disaggregation-threshold': { type: 'string' },
  'kv-bytes-per-token': { type: 'string' },
} as const;

type Values = { [flag in keyof typeof SPLIT_FLAGS]?: string | undefined };

const DEFAULT_LINK_GBITS: readonly number[] = [1, 10, 25, 100, 400];

/** The flags of prefill workers; undefined without `--prefill`. Throws `SIMULATOR_USAGE`. */
export function parseSplit(values: Values): SplitOptions | undefined {
  const { prefill } = values;
  if (prefill === undefined) {
    const [stray] = Object.keys(SPLIT_FLAGS).filter((flag) => flag in values);
    if (stray !== undefined) throw usage(`--${stray} says nothing without --prefill`);
    return undefined;
  }
  const kvBlocks = values['prefill-kv-blocks'];
  const links = values['link-gbit']?.split(',').map((text) => positiveNumber('link-gbit', text));
  const threshold = values['disaggregation-threshold'];
  const bytes = values['kv-bytes-per-token'];
  return {
    prefillWorkers: wholeNumber('prefill', prefill, 1),
    prefillSpeed: positiveNumber('prefill-speed', values['prefill-speed'] ?? '1'),
    prefillKvBlocks:
      kvBlocks === undefined ? undefined : wholeNumber('prefill-kv-blocks', kvBlocks, 1),
    linkGbits: links ?? DEFAULT_LINK_GBITS,
    modes: choose(
      'disaggregation',
      values.disaggregation ?? 'auto',
      DISAGGREGATION_MODES,
      (mode) => mode,
    ),
    thresholdTokens:
      threshold === undefined
        ? ROUTER_DEFAULTS.disaggregation.thresholdTokens
        : wholeNumber('disaggregation-threshold', threshold, 0),
    kvBytesPerToken:
      bytes === undefined
        ? DEFAULT_KV_BYTES_PER_TOKEN
        : wholeNumber('kv-bytes-per-token', bytes, 1),
  };
}

/** The prefill workers that stand beside `decoders`, with caches like the first of them unless the flags say otherwise. */
export function prefillersOf(
  { prefillWorkers, prefillSpeed, prefillKvBlocks }: SplitOptions,
  decoders: readonly WorkerSpec[],
): WorkerSpec[] {
  const kvBlocks = prefillKvBlocks ?? decoders[0]!.kvBlocks;
  const spec: WorkerSpec = { role: 'prefill', kvBlocks, speed: prefillSpeed };
  return Array.from({ length: prefillWorkers }, () => spec);
}
