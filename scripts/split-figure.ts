import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { DisaggregationMode } from '@busbar/routing';
import {
  type Crossover,
  findCrossover,
  SPLIT_WORKLOADS,
  type SplitRun,
  type SplitSetup,
  type WorkloadDefinition,
} from '@busbar/simulator';
import { LARGE, SMALL, splitRun, words } from '../test/sim/split-setup.ts';
import { type Mark, PANEL, type Panel, renderPanel, text } from './figure/log-panel.ts';

/**
 * Simulates when a prefill/decode split pays, by link rate, and writes it down: docs/assets/split-crossover.svg and the table in
 * docs/benchmarks.md. Takes half a minute; the same sources give the same files.
 */
const FIGURE = new URL('../docs/assets/split-crossover.svg', import.meta.url);
const PAGE = new URL('../docs/benchmarks.md', import.meta.url);
const BEGIN = '<!-- written by scripts/split-figure.ts -->\n';
const END = '<!-- end -->';

const GBITS = [1, 10, 25, 100, 400];
const CURVE_POINTS = 40;
/** Between the columns, in pixels. */
const GAP = 16;
const MODES: readonly DisaggregationMode[] = ['never', 'always', 'auto'];

const MODELS: readonly { name: string; setup: SplitSetup }[] = [
  { name: 'Qwen3-0.6B, 8 GB GPU', setup: SMALL },
  { name: 'Qwen3-32B, A100 (reckoned)', setup: LARGE },
];

interface Shown {
  atOnce: number;
  title: string;
  yLabel: string;
  yTicks: readonly (readonly number[])[];
  secondsOf(run: SplitRun): number;
  winsFrom(crossover: Crossover): number | undefined;
}

/** A column of the figure each. Of requests that are alone, first and last token are late by the same; of others they are not. */
const COLUMNS: readonly Shown[] = [
  {
    atOnce: 1,
    title: 'one at a time',
    yLabel: 'time to the first token, s',
    yTicks: [
      [0.1, 0.2, 0.5, 1, 2, 5],
      [0.5, 1, 2, 5, 10],
    ],
    secondsOf: ({ split }) => split.meanTtftMs / 1_000,
    winsFrom: ({ ttftGbit }) => ttftGbit,
  },
  {
    atOnce: 4,
    title: 'four at once',
    yLabel: 'time to the last of 64 tokens, s',
    yTicks: [
      [0.5, 1, 2, 5, 10, 20],
      [2, 5, 10, 20, 50],
    ],
    secondsOf: ({ split }) => split.meanTotalMs / 1_000,
    winsFrom: ({ totalGbit }) => totalGbit,
  },
];

function panelOf(model: (typeof MODELS)[number], row: number, shown: Shown): Panel {
  const workload = words(3_000, shown.atOnce);
  const steps = Array.from({ length: CURVE_POINTS + 1 }, (_, i) => 400 ** (i / CURVE_POINTS));
  const rates = [...new Set([...steps, ...GBITS])].toSorted((a, b) => a - b);
  const curves = MODES.map((mode) => {
    const points = rates.map((x) => {
      return { x, y: shown.secondsOf(splitRun(model.setup, workload, mode, x)) };
    });
    return { style: mode, points, marked: mode === 'never' ? [] : GBITS };
  });
  const crossover = findCrossover(model.setup, workload);
  const wins = shown.winsFrom(crossover);
  const { decidedGbit: decided } = crossover;
  const marks: Mark[] = [];
  if (wins !== undefined) {
    const label = `split wins from ${gbit(wins)}`;
    marks.push({ x: wins, style: 'always', label, row: 0, side: 'right' });
  }
  if (decided !== undefined) {
    const label = `auto splits most from ${gbit(decided)}`;
    marks.push({ x: decided, style: 'auto', label, row: 1, side: 'left' });
  }
  const title = `${model.name}, ${shown.title}`;
  return { title, yLabel: shown.yLabel, curves, marks, xTicks: GBITS, yTicks: shown.yTicks[row]! };
}

const STYLE = `
  text { font-family: system-ui, sans-serif; font-size: 12px; fill: #24292f; }
  .page { fill: #ffffff; } .title { font-weight: 600; font-size: 13px; } .head { font-weight: 600; font-size: 16px; }
  .end { text-anchor: end; } .middle { text-anchor: middle; } .tick, .small { fill: #57606a; }
  .grid { stroke: #d8dee4; } .curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; } .mark { stroke-dasharray: 4 3; }
  .never { stroke: #6e7781; stroke-dasharray: 7 4; } .always { stroke: #bc4c00; } .auto { stroke: #0969da; }
  .dot.always { fill: #bc4c00; stroke: none; } .dot.auto { fill: #0969da; stroke: none; }
  text.note { paint-order: stroke; stroke: #ffffff; stroke-width: 5px; stroke-dasharray: none; } text.always-note { fill: #bc4c00; } text.auto-note { fill: #0969da; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .page { fill: #0d1117; } .tick, .small { fill: #9198a1; } .grid { stroke: #30363d; }
    .never { stroke: #9198a1; } .always { stroke: #f0883e; } .auto { stroke: #58a6ff; }
    text.note { stroke: #0d1117; } .dot.always, text.always-note { fill: #f0883e; } .dot.auto, text.auto-note { fill: #58a6ff; }
  }`;

function figure(): string {
  const head = 84;
  const [width, height] = [PANEL.width * 2 + GAP, head + PANEL.height * 2 + 10];
  const legend: [string, string][] = [
    ['never', 'never: the decode worker computes prompts itself'],
    ['always', 'always: each prompt is split'],
    ['auto', 'auto: where the router predicts a gain'],
  ];
  const lefts = [62, 420, 640];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    '<title>When a split of prefill and decode pays, by link rate</title>',
    `<style>${STYLE}\n</style>`,
    `<rect class="page" width="${width}" height="${height}" rx="6"/>`,
    text(62, 28, 'head', 'When a split of prefill and decode pays, by link rate'),
    text(
      62,
      47,
      'small',
      'Prompts of 3,000 words, 64 tokens out; the prefill worker is 1.9 times as fast as the decode worker. Simulated.',
    ),
    ...legend.map(([style, label], i) => {
      const x = lefts[i]!;
      const line = `<line class="curve ${style}" x1="${x}" x2="${x + 24}" y1="66" y2="66"/>`;
      return line + text(x + 30, 70, 'legend', label);
    }),
    ...MODELS.flatMap((model, row) =>
      COLUMNS.map((shown, column) =>
        renderPanel(
          panelOf(model, row, shown),
          column * (PANEL.width + GAP),
          head + row * PANEL.height,
        ),
      ),
    ),
    '</svg>\n',
  ].join('\n');
}

function gbit(value: number): string {
  return `${value.toFixed(value < 10 ? 1 : 0)} Gbit/s`;
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${ms.toFixed(0)} ms` : `${(ms / 1_000).toFixed(2)} s`;
}

/** Mean times of one workload by link rate: to the first token, and behind the slash to the last. */
function rowsOf(setup: SplitSetup, workload: WorkloadDefinition): string[] {
  const runs = GBITS.map((rate) => MODES.map((mode) => splitRun(setup, workload, mode, rate)));
  const times = (run: SplitRun): string =>
    `${seconds(run.split.meanTtftMs)} / ${seconds(run.split.meanTotalMs)}`;
  const title = workload.title.replace('prompts of ', '').replace(', 64 tokens out', '');
  return [
    `| ${title} | never | ${times(runs[0]![0]!)} | | | | |`,
    `| | always | ${runs.map(([, always]) => times(always!)).join(' | ')} |`,
    `| | auto | ${runs.map(([, , auto]) => times(auto!)).join(' | ')} |`,
    `| | auto: split of ${runs[0]![0]!.requests} | ${runs.map(([, , auto]) => auto!.split.splits).join(' | ')} |`,
  ];
}

function tables(): string {
  const rate = (value: number | undefined): string => (value === undefined ? 'none' : gbit(value));
  const lines: string[] = [];
  for (const { name, setup } of MODELS) {
    lines.push(`**${name}**`, '');
    lines.push(`| prompts | mode | ${GBITS.map((value) => `${value} Gbit/s`).join(' | ')} |`);
    lines.push(`|---|---|${'---:|'.repeat(GBITS.length)}`);
    for (const workload of SPLIT_WORKLOADS) lines.push(...rowsOf(setup, workload));
    lines.push(
      '',
      '| prompts | first token earlier from | last token earlier from | router predicts an earlier first token from | auto splits most from |',
    );
    lines.push('|---|---:|---:|---:|---:|');
    for (const workload of SPLIT_WORKLOADS) {
      const { ttftGbit, totalGbit, predictedGbit, decidedGbit } = findCrossover(setup, workload);
      const isAlone = workload.name.endsWith('x1');
      const title = workload.title.replace('prompts of ', '').replace(', 64 tokens out', '');
      const predicted = isAlone ? rate(predictedGbit) : '';
      lines.push(
        `| ${title} | ${rate(ttftGbit)} | ${rate(totalGbit)} | ${predicted} | ${rate(decidedGbit)} |`,
      );
    }
    lines.push('');
  }
  return lines.join('\n');
}

mkdirSync(new URL('.', FIGURE), { recursive: true });
writeFileSync(FIGURE, figure());
const page = readFileSync(PAGE, 'utf8');
const [before, rest] = page.split(BEGIN);
const after = rest?.split(END)[1];
if (before === undefined || after === undefined)
  throw new Error('the page has no place for the table');
writeFileSync(PAGE, `${before}${BEGIN}\n${tables()}\n${END}${after}`);
