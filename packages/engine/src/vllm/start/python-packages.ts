import { readdir, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** A vLLM on this host, as its files tell it. */
export interface VllmInstallation {
  version: string;
  /** The folder of Python packages that it lies in. */
  packages: string;
}

const DIST_INFO = /^vllm(?:_cpu)?-(\d[^-]*)\.dist-info$/;
/** A build for one platform may be in `lib64`, and Debian's Python has `dist-packages`. */
const LIBRARIES = ['lib', 'lib64'] as const;
const FOLDERS = ['site-packages', 'dist-packages'] as const;

/** The vLLM among the packages of one prefix such as `/opt/venv`; `python` (`python3.12`) limits the search to those of one version. */
export async function findUnderPrefix(
  prefix: string,
  python?: string,
): Promise<VllmInstallation | undefined> {
  for (const library of LIBRARIES) {
    const names = await namesIn(join(prefix, library));
    const versions = names.filter((name) => /^python3\.\d+$/.test(name));
    for (const version of python === undefined ? versions : versions.filter((v) => v === python)) {
      for (const folder of FOLDERS) {
        const packages = join(prefix, library, version, folder);
        const found = await readVersion(packages);
        if (found !== undefined) return { version: found, packages };
      }
    }
  }
  return undefined;
}

/**
 * The vLLM that an interpreter imports. A virtual environment belongs to the path by which the interpreter is called, which is a link to
 * an interpreter elsewhere; any other Python looks into the user's packages and its own, on Debian also below `/usr/local`.
 */
export async function findForPython(
  interpreter: string,
  home: string | undefined,
): Promise<VllmInstallation | undefined> {
  const called = dirname(dirname(interpreter));
  if (await exists(join(called, 'pyvenv.cfg'))) return findUnderPrefix(called);
  const real = await realpath(interpreter).catch(() => interpreter);
  const prefix = dirname(dirname(real));
  const python = /^python3\.\d+$/.exec(basename(real))?.[0];
  const prefixes = [
    ...(home === undefined ? [] : [join(home, '.local')]),
    ...(prefix === '/usr' ? ['/usr/local'] : []),
    prefix,
  ];
  for (const each of prefixes) {
    const found = await findUnderPrefix(each, python);
    if (found !== undefined) return found;
  }
  return undefined;
}

async function readVersion(packages: string): Promise<string | undefined> {
  const versions = (await namesIn(packages)).map((name) => DIST_INFO.exec(name)?.[1]);
  return versions.find((version) => version !== undefined);
}

function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

/** Whether there is anything by this name. */
export function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
