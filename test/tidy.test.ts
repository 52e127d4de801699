import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { assumedDefaults, CLI_VARIABLES, SERVICE_VARIABLES } from '@busbar/cli';
import { baseConfigSchema, variableName } from '@busbar/service';
import { z } from 'zod';
import { CONFIG_SCHEMAS } from '../scripts/reference/configuration.ts';
import { errorCatalogue } from '../scripts/reference/errors.ts';
import { metricCatalogue } from '../scripts/reference/metrics.ts';
import { projectFiles, projectPaths, root, sources, workspaces } from './tidy/files.ts';
import { Plantation } from './tidy/planted.ts';
import {
  bannedWords,
  coreFolders,
  deadExports,
  deadLinks,
  deadPaths,
  exportTable,
  importFaults,
  tooLong,
  tooWide,
  unlistedMetrics,
  wireLiterals,
  workspaceFaults,
} from './tidy/rules.ts';

const files = projectFiles();
const code = sources(files);
const byPath = new Map(files.map(({ path, text }) => [path, text]));

suite('every workspace', () => {
  test('has a README, a tag, pinned dependencies and only listed exports', () => {
    assert.ok(workspaces(files).length > 10);
    assert.deepEqual(
      workspaces(files).flatMap((folder) => workspaceFaults(byPath, folder)),
      [],
    );
  });

  test('imports others by their name and nothing past its own folder', () => {
    const table = exportTable(files);
    const inside = code.filter(({ path }) => /^(?:packages|services)\//.test(path));
    assert.deepEqual(
      inside.flatMap((file) => importFaults(file, table)),
      [],
    );
  });

  test('with the tag core is under the purity rules of the linter', () => {
    const lint = byPath.get('.oxlintrc.json') ?? '';
    for (const folder of coreFolders(files)) assert.ok(lint.includes(`"${folder}/src/**"`), folder);
  });
});

suite('every file', () => {
  test('is short', () => assert.deepEqual(code.flatMap(tooLong), []));
  test('has no line of prose that is too wide', () => {
    assert.deepEqual(
      files.filter(({ path }) => /\.(?:ts|cjs|md)$/.test(path)).flatMap(tooWide),
      [],
    );
  });
  test('is free of banned words', () => assert.deepEqual(files.flatMap(bannedWords), []));
  test('links to what is there', () => assert.deepEqual(files.flatMap(deadLinks), []));
  test('names only files that are there', () =>
    assert.deepEqual(deadPaths(files, projectPaths()), []));
  test('exports what another one uses', () => {
    assert.deepEqual(deadExports(files.filter(({ path }) => path.endsWith('.ts'))), []);
  });
  test('leaves subjects and buckets to protocol', () => {
    assert.deepEqual(code.flatMap(wireLiterals), []);
  });
});

suite('the reference', () => {
  test('is what the code generates', () => {
    const script = join(root, 'scripts', 'reference.ts');
    const { status, stderr } = spawnSync(process.execPath, [script, '--check'], {
      encoding: 'utf8',
    });
    assert.equal(status, 0, stderr);
  });

  test('explains every error code', () => {
    const entries = errorCatalogue();
    assert.ok(entries.length > 30);
    const mute = entries.filter((entry) => entry.meaning === '').map((entry) => entry.code);
    assert.deepEqual(mute, [], 'a doc comment before the code in its union or list is missing');
  });

  test('has every metric', () => assert.deepEqual(unlistedMetrics(code), []));

  test('has only metrics that are named busbar_<role>_…', () => {
    const entries = metricCatalogue();
    assert.ok(entries.length > 20);
    for (const { name, role, help, labels } of entries) {
      assert.match(name, new RegExp(`^busbar_${role}_[a-z0-9_]+$`));
      assert.ok(help.length > 5, name);
      for (const label of labels) assert.match(label, /^[a-z_]+$/, name);
    }
  });

  test('knows the same variables as the command that hands them on', () => {
    const shared = Object.keys(baseConfigSchema.shape).map(variableName);
    assert.deepEqual([...SERVICE_VARIABLES.all].toSorted(), shared.toSorted());
    for (const [role, schema] of Object.entries(CONFIG_SCHEMAS)) {
      const own = Object.keys(schema.shape)
        .map(variableName)
        .filter((name) => !shared.includes(name));
      const handed = Object.entries(SERVICE_VARIABLES).find(([name]) => name === role)?.[1];
      assert.deepEqual([...(handed ?? [])].toSorted(), own.toSorted(), role);
      for (const name of CLI_VARIABLES) assert.ok(!own.includes(name), name);
    }
  });
});

test('the command and the services have the same defaults', () => {
  const seen = new Set<string>();
  for (const [role, schema] of Object.entries(CONFIG_SCHEMAS)) {
    const { properties } = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' });
    for (const [name, field] of Object.entries(properties ?? {})) {
      const variable = variableName(name);
      const assumed = assumedDefaults().get(variable);
      if (assumed === undefined) continue;
      seen.add(variable);
      assert.equal(assumed, typeof field === 'object' && String(field.default), `${role} ${name}`);
    }
  }
  assert.deepEqual([...seen].toSorted(), [...assumedDefaults().keys()].toSorted());
});

suite('a planted fault is found by', () => {
  test('the rules of this file', () => {
    const at = (path: string, text: string) => ({ path, text });
    const word = ['TO', 'DO'].join('');
    assert.equal(bannedWords(at('packages/x/src/a.ts', `// ${word}: later`)).length, 1);
    assert.equal(bannedWords(at('README.md', 'see /root/design')).length, 1);
    assert.equal(bannedWords(at('README.md', 'a plain sentence')).length, 0);
    assert.equal(wireLiterals(at('services/x/src/a.ts', 'publish(`bb.${ns}.kv`)')).length, 1);
    assert.equal(wireLiterals(at('services/x/src/a.ts', '// on `bb.<ns>.kv`')).length, 0);
    assert.equal(tooLong(at('packages/x/src/a.ts', 'x\n'.repeat(401))).length, 1);
    assert.equal(tooLong(at('services/x/src/main.ts', 'x\n'.repeat(41))).length, 1);
    const wide = 'word '.repeat(33);
    assert.equal(
      tooWide(at('README.md', `${wide}\n| ${wide} |\n\`\`\`\n${wide}\n\`\`\``)).length,
      1,
    );
    assert.equal(tooWide(at('packages/x/src/a.ts', `// ${wide}\nf('${wide}');`)).length, 1);
    assert.equal(deadLinks(at('README.md', '[x](docs/nowhere.md)')).length, 1);
    assert.equal(deadLinks(at('README.md', '[x](package.json)')).length, 0);
    const named = (name: string) =>
      deadPaths([at('README.md', `see \`${name}\``)], ['packages/x/src/b/a.ts']);
    for (const name of ['a.ts', 'b/a.ts', 'packages/x/src/b']) assert.deepEqual(named(name), []);
    for (const name of ['c/a.ts', 'packages/x/src/c', 'ba.ts']) assert.equal(named(name).length, 1);
    const [used, unused] = [
      at('a.ts', 'export const x = 1;'),
      at('b.ts', 'export class Y {}\n// x'),
    ];
    assert.equal(deadExports([used, unused]).length, 1);
    const metrics = "import 'prom-client';\nexport function createXMetrics() {}";
    assert.equal(unlistedMetrics([at('services/x/src/metrics.ts', metrics)]).length, 1);
    const table = new Map([['@busbar/bus', ['.', './contract']]]);
    const faulty = [
      "import { x } from '@busbar/bus/src/nats-bus.ts';",
      "import { x } from '@busbar/none';",
      "import { x } from '../../bus/src/index.ts';",
    ];
    for (const text of faulty) {
      assert.equal(importFaults(at('packages/x/src/a.ts', text), table).length, 1, text);
    }
    const good = "import { x } from '@busbar/bus/contract';\nimport { y } from '../src/b.ts';";
    assert.deepEqual(importFaults(at('packages/x/src/a.ts', good), table), []);
    assert.deepEqual(
      workspaceFaults(new Map([['packages/x/package.json', '{}']]), 'packages/x').length,
      1,
    );
  });

  test('oxlint: impure core, floating promises, and the rest', () => {
    const faults: [file: string, source: string, rule: string][] = [
      ['date', 'export const now = (): number => Date.now();', 'no-restricted-globals'],
      [
        'timer',
        'export const wait = (): unknown => setTimeout(() => {}, 1);',
        'no-restricted-globals',
      ],
      ['process', 'export const pid = (): number => process.pid;', 'no-restricted-globals'],
      ['chance', 'export const draw = (): number => Math.random();', 'no-restricted-properties'],
      ['node', "export { readFileSync } from 'node:fs';", 'no-restricted-imports'],
      ['nats', "export { connect } from '@nats-io/transport-node';", 'no-restricted-imports'],
      ['deep', "export { x } from '@busbar/base/src/rng.ts';", 'no-restricted-imports'],
      [
        'float',
        'const run = async (): Promise<void> => {};\nexport const go = (): void => {\n  run();\n};',
        'no-floating-promises',
      ],
      ['any', 'export const loose = (value: any): unknown => value;', 'no-explicit-any'],
      ['output', "export const say = (): void => console.log('x');", 'no-console'],
      ['defaulted', 'const x = 1;\nexport default x;', 'no-default-export'],
      [
        'missing-case',
        "export function f(x: 'a' | 'b'): number {\n  switch (x) {\n    case 'a':\n      return 1;\n  }\n  return 0;\n}",
        'switch-exhaustiveness-check',
      ],
      ['wrongName', 'export const x = 1;', 'filename-case'],
    ];
    const ground = new Plantation();
    try {
      for (const [file, source] of faults)
        ground.write(`packages/routing/src/${file}.ts`, `${source}\n`);
      ground.write('packages/routing/src/clean.ts', 'export const x = 1;\n');
      const { exitCode, output } = ground.run('oxlint', '--type-aware', '-f', 'unix', 'packages');
      assert.equal(exitCode, 1, output);
      const lines = output.split('\n');
      for (const [file, , rule] of faults) {
        const found = lines.some((line) => line.includes(`/${file}.ts:`) && line.includes(rule));
        assert.ok(found, `${rule} in ${file}.ts\n${output}`);
      }
      assert.ok(!output.includes('clean.ts'), output);
    } finally {
      ground.remove();
    }
  });

  test('turbo: a core that depends on a service, an import that is not declared', () => {
    const ground = new Plantation();
    try {
      for (const folder of ['packages/base', 'services/router']) {
        for (const file of ['package.json', 'turbo.json']) ground.copy(`${folder}/${file}`);
      }
      const manifest = (text: string | undefined, dependencies: Record<string, string>): string =>
        JSON.stringify({ ...JSON.parse(text ?? '{}'), dependencies });
      const base = byPath.get('packages/base/package.json');
      ground.write(
        'services/router/package.json',
        manifest(byPath.get('services/router/package.json'), {}),
      );
      assert.equal(ground.run('turbo', 'boundaries').exitCode, 0);
      ground.write('packages/base/package.json', manifest(base, { '@busbar/router': '*' }));
      const tagged = ground.run('turbo', 'boundaries');
      assert.notEqual(tagged.exitCode, 0);
      assert.match(tagged.output, /@busbar\/router/);
      ground.copy('packages/base/package.json');
      ground.write('packages/base/src/index.ts', "export { z } from 'zod';\n");
      const undeclared = ground.run('turbo', 'boundaries');
      assert.notEqual(undeclared.exitCode, 0);
      assert.match(undeclared.output, /zod/);
    } finally {
      ground.remove();
    }
  });

  test('tsc: unchecked index, enum, missing member; biome: format', () => {
    const ground = new Plantation();
    try {
      ground.write(
        'packages/x/src/index.ts',
        'export const first = (list: number[]): number => list[0];\n',
      );
      ground.write('packages/x/src/enum.ts', 'export enum Colour {\n  Red,\n}\n');
      ground.write('packages/x/src/format.ts', 'export const  x = "y"\n');
      const { exitCode, output } = ground.run('tsc');
      assert.notEqual(exitCode, 0);
      assert.match(output, /index\.ts.*TS2322/);
      assert.match(output, /enum\.ts.*TS1294/);
      assert.notEqual(ground.run('biome', 'check', '--vcs-enabled=false', '.').exitCode, 0);
    } finally {
      ground.remove();
    }
  });
});
