import { open } from 'node:fs/promises';

/** Wrappers and entry points are far shorter; what comes behind is not looked at. */
const MAX_BYTES = 64 * 1_024;

/** The beginning of a text file; undefined for programs that are no text, and for what cannot be read. */
export async function readScript(path: string): Promise<string | undefined> {
  const file = await open(path).catch(() => undefined);
  if (file === undefined) return undefined;
  try {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0);
    const bytes = buffer.subarray(0, bytesRead);
    return bytes.includes(0) ? undefined : bytes.toString('utf8');
  } catch {
    return undefined;
  } finally {
    await file.close();
  }
}

/** The interpreter that the first line names: a path, or a name that `env` looks for. Undefined when it is none of Python's. */
export function pythonOf(script: string): string | undefined {
  const words = /^#! *(.*)/.exec(script)?.[1]?.trim().split(/\s+/) ?? [];
  return words.find((word) => /(^|\/)python[\d.]*$/.test(word));
}

/** Programs of a Python environment that a shell script names by their whole path, without comments. */
export function programsIn(script: string, home: string | undefined): string[] {
  const code = script.replace(/^\s*#.*$/gm, '');
  const text = home === undefined ? code : code.replace(/\$HOME\b|\$\{HOME\}|~(?=\/)/g, home);
  const path =
    /(?<=^|[\s"'=;&|(`])\/[^\s"'`;&|()<>$]*\/(?:vllm|python[\d.]*|activate)(?![^\s"'`;&|()<>])/gm;
  return [...new Set(text.match(path) ?? [])];
}

/** A script that says where programs are found: what a bare name means behind it cannot be told from here. */
export function changesPath(script: string): boolean {
  return /\bPATH=|\bactivate\b|\b(conda|mamba|micromamba|module|pyenv|uvx?)\b/.test(script);
}
