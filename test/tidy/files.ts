import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** One text file of the project. */
export interface ProjectFile {
  /** Relative to the root, with slashes. */
  path: string;
  text: string;
}

const TEXT = /\.(?:ts|cts|cjs|mjs|js|json|md|yml|yaml|sh|toml)$/;
const GENERATED = ['package-lock.json'];

/** Paths of all files that git knows or would take. */
export function projectPaths(): string[] {
  const listed = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  return [...new Set(listed.split('\0'))].filter((path) => existsSync(join(root, path)));
}

/** Those of them that are text. The built-in tokenizer and recorded results are data, not text. */
export function projectFiles(): ProjectFile[] {
  return projectPaths()
    .filter((path) => TEXT.test(path) && !GENERATED.includes(path))
    .filter((path) => !/(?:tokenizer\.json|\/results\/.*)$/.test(path))
    .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));
}

/** Folders of all workspaces, e.g. `packages/base`. */
export function workspaces(files: readonly ProjectFile[]): string[] {
  return files
    .map(({ path }) => /^((?:packages|services)\/[^/]+)\/package\.json$/.exec(path)?.[1])
    .filter((folder) => folder !== undefined)
    .toSorted();
}

/** Sources of the program and its tools: TypeScript and CommonJS outside the tests of tidiness. */
export function sources(files: readonly ProjectFile[]): ProjectFile[] {
  return files.filter(({ path }) => /\.(?:ts|cts|cjs)$/.test(path) && !isTidy(path));
}

/** The rules themselves hold what they forbid. */
export function isTidy(path: string): boolean {
  return path === 'test/tidy.test.ts' || path.startsWith('test/tidy/');
}

/** Code without its comments; line ends stay, so that line numbers hold. Strings that look like comments are rare enough. */
export function withoutComments(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, ' '))
    .replace(/(^|[\s;{},])\/\/.*$/gm, '$1');
}

/** Path of a relative import or link, resolved from the file that holds it. */
export function resolveFrom(file: string, target: string): string {
  return join(dirname(file), target);
}
