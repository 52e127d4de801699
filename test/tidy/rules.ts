import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import {
  isTidy,
  type ProjectFile,
  resolveFrom,
  root,
  sources,
  withoutComments,
  workspaces,
} from './files.ts';

const LINES_MAX = 400;
const MAIN_LINES_MAX = 40;
/** Of prose and of comments; code is the formatter's. */
const LINE_CHARS_MAX = 160;

/** What must not stand in any file, and what to write instead. */
const BANNED: readonly [RegExp, string][] = [
  [/(?<!['"`].*)\b(?:TODO|FIXME|XXX|HACK)\b/, 'do it now or file an issue'],
  [/\/(?:root|home)\/\w|\/tmp\/(?!\$)/, 'name nothing outside the project; tests use os.tmpdir()'],
  [
    /registry\.npmjs\.org|(?:files\.)?pythonhosted\.org|pypi\.org/,
    'registries are reached by their clients',
  ],
  [
    /\bissue #?\d+\b|\bas requested\b|\bsub-?agents?\b|\bAI[- ]generated\b/i,
    'describe the present state only',
  ],
];

/** Only in code. */
const BANNED_CODE: readonly [RegExp, string][] = [
  [/@ts-ignore|@ts-nocheck/, 'fix the type'],
  [/(?<![\w.])(?:test|it|describe|suite)\.only\(/, 'all tests run'],
];

/** Lines that hold a banned word. */
export function bannedWords({ path, text }: ProjectFile): string[] {
  if (isTidy(path)) return [];
  const isCode = /\.(?:ts|cts|cjs)$/.test(path);
  const rules = isCode ? [...BANNED, ...BANNED_CODE] : BANNED;
  return text
    .split('\n')
    .flatMap((line, i) =>
      rules
        .filter(([pattern]) => pattern.test(line))
        .map(([pattern, instead]) => `${path}:${i + 1} ${pattern.exec(line)?.[0]}: ${instead}`),
    );
}

/** Subject and bucket names outside of `protocol`. */
export function wireLiterals(file: ProjectFile): string[] {
  if (file.path.startsWith('packages/protocol/')) return [];
  return withoutComments(file.text)
    .split('\n')
    .flatMap((line, i) =>
      /['"`]bb[._]/.test(line)
        ? [`${file.path}:${i + 1} builds a subject or bucket name: use createSubjects, bucketNames`]
        : [],
    );
}

/** Files that are too long to read at once. */
export function tooLong({ path, text }: ProjectFile): string[] {
  const max = /^services\/[^/]+\/src\/main\.ts$|^packages\/cli\/src\/main\.ts$/.test(path)
    ? MAIN_LINES_MAX
    : LINES_MAX;
  const lines = text.trimEnd().split('\n').length;
  return lines > max ? [`${path} has ${lines} lines; at most ${max}`] : [];
}

/** Lines of prose that no screen shows whole, with their numbers. Tables and what stands word for word may be wider. */
export function tooWide({ path, text }: ProjectFile): string[] {
  const isProse = path.endsWith('.md');
  let isVerbatim = false;
  return text.split('\n').flatMap((line, i) => {
    if (isProse && line.trimStart().startsWith('```')) isVerbatim = !isVerbatim;
    const counts = isProse ? !isVerbatim && !line.startsWith('|') : /^ *(?:\/\/|\/?\*)/.test(line);
    return counts && line.length > LINE_CHARS_MAX ? [`${path}:${i + 1} is too wide`] : [];
  });
}

const EXPORT = /^export (?:async )?(?:abstract )?(?:function\*?|class|const) (\w+)/gm;

/** Functions, classes and constants that are exported and named in no other file. */
export function deadExports(files: readonly ProjectFile[]): string[] {
  const places = new Map<string, number>();
  for (const { text } of files) {
    for (const word of new Set(text.match(/\w+/g))) places.set(word, (places.get(word) ?? 0) + 1);
  }
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(EXPORT)]
      .filter(([, name = '']) => (places.get(name) ?? 0) < 2)
      .map(([, name]) => `${path} exports ${name}, which nobody imports`),
  );
}

const CATALOGUE = 'scripts/reference/metrics.ts';

/** Functions that register metrics and are called neither for the reference nor by one that is. */
export function unlistedMetrics(files: readonly ProjectFile[]): string[] {
  const registering = files.filter(
    ({ path, text }) =>
      path === CATALOGUE ||
      (/^(?:packages|services)\//.test(path) && text.includes("'prom-client'")),
  );
  return registering.flatMap(({ path, text }) =>
    [...text.matchAll(/^export function (create\w+Metrics)\b/gm)].flatMap(([, name = '']) =>
      registering.some((other) => other.path !== path && other.text.includes(`${name}(`))
        ? []
        : [`${path}: the metrics of ${name} are not in ${CATALOGUE}`],
    ),
  );
}

const manifestSchema = z.object({
  name: z.string(),
  private: z.literal(true),
  type: z.literal('module'),
  license: z.literal('Apache-2.0'),
  exports: z.record(z.string(), z.string()),
  dependencies: z.record(z.string(), z.string()),
});

/** Subpaths that a package may export beside its index: its contract suite, help for tests, code that runs before the install. */
const SUBPATHS = ['.', './contract', './testing', './finder'];
const TAGS = ['core', 'adapter', 'harness', 'tool', 'service'];

/** What is wrong with one workspace folder. */
export function workspaceFaults(files: ReadonlyMap<string, string>, folder: string): string[] {
  const faults: string[] = [];
  const manifest = manifestSchema.safeParse(
    JSON.parse(files.get(`${folder}/package.json`) ?? '{}'),
  );
  if (!manifest.success) return [`${folder}/package.json: ${z.prettifyError(manifest.error)}`];
  const { name, exports, dependencies } = manifest.data;
  if (name !== `@busbar/${folder.split('/')[1]}`) faults.push(`${folder} is named ${name}`);
  for (const [subpath, target] of Object.entries(exports)) {
    if (!SUBPATHS.includes(subpath)) faults.push(`${folder} exports ${subpath}`);
    if (!files.has(join(folder, target))) faults.push(`${folder}: ${target} is not there`);
  }
  for (const [dependency, version] of Object.entries(dependencies)) {
    const wanted = dependency.startsWith('@busbar/') ? /^\*$/ : /^\d+\.\d+\.\d+$/;
    if (!wanted.test(version))
      faults.push(`${folder}: ${dependency} is at "${version}", not pinned`);
  }
  const tag = /"tags":\s*\["(\w+)"\]/.exec(files.get(`${folder}/turbo.json`) ?? '')?.[1];
  if (tag === undefined || !TAGS.includes(tag))
    faults.push(`${folder}/turbo.json has no known tag`);
  const readme = files.get(`${folder}/README.md`);
  if (readme === undefined) faults.push(`${folder} has no README.md`);
  else if (!readme.startsWith(`# ${name}\n`)) faults.push(`${folder}/README.md has no title`);
  return faults;
}

const IMPORT = /(?:from|import)\s*\(?\s*'([^']+)'/g;

/** Imports that go round a package's exports. */
export function importFaults(
  file: ProjectFile,
  exportsOf: ReadonlyMap<string, readonly string[]>,
): string[] {
  const home = /^(?:packages|services)\/[^/]+/.exec(file.path)?.[0];
  return [...withoutComments(file.text).matchAll(IMPORT)].flatMap(([, target = '']) => {
    const [, name, rest = ''] = /^(@busbar\/[^/]+)(?:\/(.*))?$/.exec(target) ?? [];
    if (name !== undefined) {
      const subpath = rest === '' ? '.' : `./${rest}`;
      const isListed = exportsOf.get(name)?.includes(subpath) === true;
      return isListed ? [] : [`${file.path} imports ${target}, which is not exported`];
    }
    const leaves =
      home !== undefined &&
      target.startsWith('.') &&
      !resolveFrom(file.path, target).startsWith(`${home}/`);
    return leaves ? [`${file.path} imports ${target} from outside its package`] : [];
  });
}

/** Exported subpaths by package name. */
export function exportTable(files: readonly ProjectFile[]): Map<string, string[]> {
  return new Map(
    workspaces(files).map((folder) => {
      const text = files.find(({ path }) => path === `${folder}/package.json`)?.text ?? '{}';
      const { name, exports } = manifestSchema
        .pick({ name: true, exports: true })
        .parse(JSON.parse(text));
      return [name, Object.keys(exports)];
    }),
  );
}

/** Relative links in a page that lead nowhere. */
export function deadLinks({ path, text }: ProjectFile): string[] {
  if (!path.endsWith('.md')) return [];
  return [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].flatMap(([, target = '']) => {
    if (/^[a-z]+:/.test(target)) return [];
    return existsSync(join(root, resolveFrom(path, target))) ? [] : [`${path} links to ${target}`];
  });
}

/** A path as prose writes it: below a folder of the root, or a source file that it names by the end of its path. */
const PATH_IN_PROSE =
  /`((?:packages|services|test|scripts|docs|infra)\/[\w./-]+|[\w./-]+\.(?:ts|cjs))`/g;

/** Folders that runs make and git ignores. */
const MADE_BY_RUNS = ['test/bench/results'];

/** Files and folders that prose names and that are not there. */
export function deadPaths(files: readonly ProjectFile[], paths: readonly string[]): string[] {
  const known = [...paths, ...MADE_BY_RUNS].map((path) => `/${path}`);
  const isThere = (name: string): boolean => {
    const end = `/${name.replace(/\/$/, '')}`;
    return known.some((path) => path.endsWith(end) || path.includes(`${end}/`));
  };
  return files
    .filter(({ path }) => path.endsWith('.md'))
    .flatMap(({ path, text }) =>
      [...text.matchAll(PATH_IN_PROSE)]
        .filter(([, name = '']) => !isThere(name))
        .map(([, name]) => `${path} names ${name}, which is not there`),
    );
}

/** Core packages, by their tag. */
export function coreFolders(files: readonly ProjectFile[]): string[] {
  return workspaces(files).filter((folder) =>
    files.some(({ path, text }) => path === `${folder}/turbo.json` && text.includes('"core"')),
  );
}

export { sources };
