import { constants } from 'node:fs';
import { access, realpath, stat } from 'node:fs/promises';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import {
  exists,
  findForPython,
  findUnderPrefix,
  type VllmInstallation,
} from './python-packages.ts';
import { changesPath, programsIn, pythonOf, readScript } from './script-text.ts';

type Env = Readonly<Record<string, string | undefined>>;

/** These run a program in an environment of their own, where a bare name means something else than here. */
const ENVIRONMENTS = /^(uvx?|pipx|conda|mamba|micromamba|pixi|poetry|pipenv|hatch|rye|sudo|doas)$/;
/** And these where whole paths do too. */
const ELSEWHERE = /^(docker|podman|nerdctl|apptainer|singularity|ssh|kubectl|chroot|nsenter)$/;
const SHELL = /^(ba|da|z|k)?sh$/;
const PYTHON = /^python[\d.]*$/;
/** Options of `uv run` that leave the environment as it is. */
const UV_NEUTRAL: readonly string[] = ['--frozen', '--locked', '--no-sync', '--offline'];
/** A script that names a script that names the entry point of vLLM, say. */
const MAX_DEPTH = 3;

/**
 * The vLLM that a command runs, by files alone: importing it to ask takes ten seconds and more. Looks at every word, because a command may
 * begin with wrappers (`nice -n 10 vllm`); follows the first line of scripts and the paths that shell scripts name. Undefined when no word
 * leads to a vLLM, or to more than one: a wrong answer would be worse than none.
 */
export async function findInstallation(
  command: readonly string[],
  env: Env,
): Promise<VllmInstallation | undefined> {
  const search = new Search(env);
  let path = env['PATH'];
  let besides: VllmInstallation | undefined;
  for (const [at, word] of command.entries()) {
    if (word.startsWith('PATH=')) path = word.slice('PATH='.length);
    if (word.startsWith('-') || /^\w+=/.test(word)) continue;
    const name = basename(word);
    if (ELSEWHERE.test(name)) return undefined;
    if (ENVIRONMENTS.test(name)) {
      path = name === 'uv' ? await uvFolder(command.slice(at + 1), env) : undefined;
      continue;
    }
    const given = SHELL.test(name) ? scriptGiven(command.slice(at + 1)) : undefined;
    if (given !== undefined) {
      const found = await search.ofScript(given.text, path);
      if (found !== undefined) return found;
      if (given.isLogin || changesPath(given.text) || given.text.includes('/vllm'))
        path = undefined;
      continue;
    }
    const file = await findProgram(word, path);
    if (name === 'vllm' || PYTHON.test(name)) {
      const found = file === undefined ? undefined : await search.ofEngine(file, path);
      // What an interpreter runs, it runs with its own packages, wherever that lies.
      if (found !== undefined || name !== 'vllm') return found;
      besides = undefined;
      continue;
    }
    const script = file === undefined ? undefined : await readScript(file);
    if (script === undefined) continue;
    const found = await search.ofScript(script, path);
    if (pythonOf(script) !== undefined) besides ??= found;
    else if (found !== undefined) return found;
    else if (changesPath(script)) path = undefined;
  }
  return besides;
}

/** What programs of this host belong to. */
class Search {
  readonly #home: string | undefined;

  constructor(env: Env) {
    this.#home = env['HOME'];
  }

  /** For `vllm`, an interpreter or what activates an environment. `path` is where `env` would look. */
  async ofEngine(
    file: string,
    path: string | undefined,
    depth = 0,
  ): Promise<VllmInstallation | undefined> {
    const name = basename(file);
    if (name === 'activate') return findUnderPrefix(dirname(dirname(file)));
    const script = await readScript(file);
    if (script === undefined && name !== 'vllm') return findForPython(file, this.#home);
    const found = script === undefined ? undefined : await this.ofScript(script, path, depth);
    // A shell script may run anything; other entry points lie in the environment that they belong to.
    if (found !== undefined || /^#!.*sh\b/.test(script ?? '')) return found;
    return findUnderPrefix(dirname(dirname(await realpath(file).catch(() => file))));
  }

  async ofScript(
    script: string,
    path: string | undefined,
    depth = 0,
  ): Promise<VllmInstallation | undefined> {
    if (depth >= MAX_DEPTH) return undefined;
    const python = pythonOf(script);
    if (python !== undefined) {
      const file = await findProgram(python, path);
      return file === undefined ? undefined : findForPython(file, this.#home);
    }
    const files = programsIn(script, this.#home);
    const all = await Promise.all(files.map((file) => this.ofEngine(file, path, depth + 1)));
    const found = all.filter((each) => each !== undefined);
    return new Set(found.map((each) => each.packages)).size === 1 ? found[0] : undefined;
  }
}

/** The script that a shell is given as a word (`-c`), which may name what comes behind it as it likes. A login shell sets its own path. */
function scriptGiven(words: readonly string[]): { text: string; isLogin: boolean } | undefined {
  const first = words.findIndex((word) => !word.startsWith('-'));
  const options = words.slice(0, first);
  const text = words[first];
  if (text === undefined || !options.some((option) => /^-\w*c/.test(option))) return undefined;
  return { text, isLogin: options.some((option) => /^-\w*[li]|^--login$/.test(option)) };
}

/** Why the first word of a command runs nothing, as a sentence; undefined when it does, or when the environment has no PATH to look in. */
export async function missingProgram(
  [word]: readonly string[],
  env: Env,
): Promise<string | undefined> {
  const path = env['PATH'];
  if (word === undefined || path === undefined) return undefined;
  const file = await findProgram(word, path);
  if (file !== undefined && (await isFile(file, constants.X_OK))) return undefined;
  return word.includes('/') ? `${word} is no program.` : `No program "${word}" is on PATH.`;
}

/** The file that a word names; one without a slash is looked for in `path`, and not at all when that is undefined. */
async function findProgram(word: string, path: string | undefined): Promise<string | undefined> {
  // A shell may be given a script that nobody may run.
  if (word.includes('/')) return (await isFile(word, constants.R_OK)) ? resolve(word) : undefined;
  for (const folder of path?.split(delimiter) ?? []) {
    const place = join(folder, word);
    if (folder !== '' && (await isFile(place, constants.X_OK))) return place;
  }
  return undefined;
}

async function isFile(path: string, mode: number): Promise<boolean> {
  try {
    await access(path, mode);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/** Where `uv run` with these words finds programs: in the environment of the project; undefined when the words choose another one. */
async function uvFolder(words: readonly string[], env: Env): Promise<string | undefined> {
  const [verb, ...rest] = words;
  const options = rest.slice(
    0,
    rest.findIndex((word) => !word.startsWith('-')),
  );
  if (verb !== 'run' || options.some((option) => !UV_NEUTRAL.includes(option))) return undefined;
  const told = env['UV_PROJECT_ENVIRONMENT'];
  if (told !== undefined) return join(resolve(told), 'bin');
  for (let folder = resolve('.'); ; folder = dirname(folder)) {
    const own = join(folder, '.venv');
    if (await exists(own)) return join(own, 'bin');
    if (folder === dirname(folder)) return undefined;
  }
}
