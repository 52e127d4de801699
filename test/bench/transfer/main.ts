import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ensureNatsServer } from '@busbar/nats-server';
import { machineState } from '../machine.ts';
import { runLoopback, runShaped, SETTINGS } from './cases.ts';
import { type Check, checkLoopback, checkShaped } from './checks.ts';
import { buildNetwork, endWithCaller, networkRefusal, runApart, SETUP } from './network.ts';
import { checksTable, loopbackTable, shapedTable } from './tables.ts';

const HELP = `npm run bench:transfer -- [--only shaped|loopback] [--out DIR]

Splits requests over a link of 1 Gbit/s between two network namespaces, and over loopback with a decode worker that
prefills slowly. Makes its own namespaces, which end with it; takes about three minutes.
`;

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    out: { type: 'string', default: join(import.meta.dirname, '../results') },
    inside: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
});
const out = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

if (values.help) out(HELP);
else if (values.inside) {
  // What watches the caller would keep this process alive.
  process.exit(await measure());
} else process.exitCode = await outside();

async function outside(): Promise<number> {
  // Nothing can be downloaded from inside.
  await ensureNatsServer();
  const refusal = await networkRefusal();
  if (refusal !== undefined) {
    out(`skipped: no network namespaces with a shaped link can be made here: ${refusal}`);
    return 0;
  }
  return runApart(import.meta.filename, [...process.argv.slice(2), '--inside']);
}

async function measure(): Promise<number> {
  endWithCaller();
  await buildNetwork();
  const machine = machineState();
  const say = (line: string): void => out(`   ${line}`);
  const checks: Check[] = [];
  const result: Record<string, unknown> = {};
  if (values.only !== 'loopback') {
    out('== a link of 1 Gbit/s');
    const shaped = await runShaped(say);
    checks.push(...checkShaped(shaped));
    result['shaped'] = shaped;
    out(`\n${shapedTable(shaped)}\n`);
  }
  if (values.only !== 'shaped') {
    out('== loopback, a decode worker that prefills slowly');
    const loopback = await runLoopback(say);
    checks.push(...checkLoopback(loopback));
    result['loopback'] = loopback;
    out(`\n${loopbackTable(loopback)}\n`);
  }
  out(`${checksTable(checks)}\n`);
  await mkdir(values.out, { recursive: true });
  const file = join(values.out, 'transfer.json');
  const report = { case: 'transfer', machine, after: machineState().loadAverage1m };
  const settings = { ...SETTINGS, network: SETUP };
  await writeFile(file, `${JSON.stringify({ ...report, settings, checks, result }, null, 2)}\n`);
  out(`load average ${machine.loadAverage1m} before, ${report.after} after\n-> ${file}`);
  return checks.every(({ isMet }) => isMet) ? 0 : 1;
}
