import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchCpu } from './cases/cpu.ts';
import { benchGrowth } from './cases/growth.ts';
import { benchMemory } from './cases/memory.ts';
import { benchMicro } from './cases/micro.ts';
import { benchPrefix } from './cases/prefix.ts';
import { benchTtft } from './cases/ttft.ts';
import { machineState } from './machine.ts';

/** What every case gets from the command line. */
export interface BenchContext {
  model: string;
  /** Further flags of `busbar up` that name the model's folder. */
  modelFlags: readonly string[];
  /** Words of a long prefix: about 1,525 tokens with the tokenizer in use. */
  prefixWords: number;
  say(line: string): void;
}

const CASES = {
  micro: benchMicro,
  prefix: benchPrefix,
  ttft: benchTtft,
  cpu: benchCpu,
  growth: benchGrowth,
  memory: benchMemory,
} as const;
type CaseName = keyof typeof CASES;
const isCase = (name: string): name is CaseName => name in CASES;

const HELP = `npm run bench -- [CASE...] [--model-path DIR] [--words N] [--out DIR]

Cases: ${Object.keys(CASES).join(', ')} (all of them when none is named).
  --model-path DIR   folder with tokenizer.json; without it the built-in small tokenizer serves
  --words N          words in a long prefix (1500)
  --out DIR          where results go, one JSON file a case (test/bench/results)
`;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    'model-path': { type: 'string' },
    words: { type: 'string', default: '1500' },
    out: { type: 'string', default: join(import.meta.dirname, 'results') },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
const out = (line: string): void => {
  process.stdout.write(`${line}\n`);
};

if (values.help) out(HELP);
else {
  const unknown = positionals.filter((name) => !isCase(name));
  if (unknown.length > 0) {
    out(`no such case: ${unknown.join(', ')}\n\n${HELP}`);
    process.exitCode = 2;
  } else
    await runCases(
      positionals.length > 0 ? positionals.filter(isCase) : Object.keys(CASES).filter(isCase),
    );
}

async function runCases(names: CaseName[]): Promise<void> {
  const modelPath = values['model-path'];
  await mkdir(values.out, { recursive: true });
  for (const name of names) {
    out(`== ${name}`);
    const context: BenchContext = {
      model: 'bench',
      modelFlags: modelPath === undefined ? [] : ['--model-path', modelPath],
      prefixWords: Number(values.words),
      say: (line) => out(`   ${line}`),
    };
    const machine = machineState();
    const result = await CASES[name](context);
    const file = join(values.out, `${name}.json`);
    await writeFile(
      file,
      `${JSON.stringify({ case: name, tokenizer: modelPath === undefined ? 'built-in' : 'given folder', machine, result }, null, 2)}\n`,
    );
    out(`   -> ${file}`);
  }
}
