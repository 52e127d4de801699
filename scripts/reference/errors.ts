import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { AppError } from '@busbar/base';
import { problemOf } from '../../services/frontend/src/http/error-response.ts';
import { plainComment } from './doc-comments.ts';
import { code, markdownTable, type Page, page } from './page.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** First words of codes, and who raises them. */
const OWNERS: Readonly<Record<string, string>> = {
  FRONTEND: 'Frontend',
  ROUTER: 'Router',
  WORKER: 'Worker',
  TRANSFER: 'Transfer of KV',
  BUS: 'Bus',
  PROTOCOL: 'Wire contract',
  TOKENIZER: 'Tokenizer',
  SERVICE: 'Process shell',
  SIMULATOR: 'Simulator',
  CLI: 'Command',
};

const CODE = `(?:${Object.keys(OWNERS).join('|')})_[A-Z_]+`;
const LITERAL = new RegExp(`'(${CODE})'`, 'g');
/** A doc comment before `| 'CODE'` or `'CODE',`, as in a union or a list. */
const DOCUMENTED = new RegExp(
  `/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s*\\|?\\s*'(${CODE})'[,;]?$`,
  'gm',
);
/** `CODE: { message: '…'` in a table. */
const TABLED = new RegExp(`^\\s*(${CODE}): \\{\\s*message:\\s*(['"])(.*?)\\2`, 'gm');

export interface ErrorEntry {
  code: string;
  /** Empty when no declaration says what the code means. */
  meaning: string;
  /** `429 queue_full` when a client of the API sees it so. */
  http: string;
}

/** Every error code in the sources. Its meaning is the doc comment of its declaration, or its message in a table. */
export function errorCatalogue(): ErrorEntry[] {
  const meanings = new Map<string, string>();
  for (const file of globSync(['packages/*/src/**/*.ts', 'services/*/src/**/*.ts'], {
    cwd: root,
  })) {
    if (file.endsWith('.test.ts')) continue;
    const source = readFileSync(`${root}/${file}`, 'utf8');
    for (const [, name = ''] of source.matchAll(LITERAL)) {
      if (!meanings.has(name)) meanings.set(name, '');
    }
    for (const [, doc = '', name = ''] of source.matchAll(DOCUMENTED)) {
      meanings.set(name, plainComment(doc));
    }
    for (const [, name = '', , message = ''] of source.matchAll(TABLED)) {
      meanings.set(name, sentence(message));
    }
  }
  return [...meanings]
    .map(([name, meaning]) => ({ code: name, meaning, http: httpOf(name) }))
    .toSorted((a, b) => a.code.localeCompare(b.code));
}

/** Every error code by who raises it. */
export function errorsPage(): Page {
  const entries = errorCatalogue();
  const parts = Object.entries(OWNERS).flatMap(([prefix, owner]) => {
    const rows = entries
      .filter((entry) => entry.code.startsWith(`${prefix}_`))
      .map((entry) => [code(entry.code), entry.meaning, entry.http]);
    if (rows.length === 0) return [];
    return [`## ${owner}`, markdownTable(['code', 'what it means', 'HTTP'], rows)];
  });
  return page(
    'errors.md',
    'Errors',
    'Operating errors have stable codes: they stand in logs, metrics and answers on the bus. A client of the API sees the status and the code of the last column; what has none is 500 there. A broken invariant has no code: it ends the process.',
    parts,
  );
}

function httpOf(name: string): string {
  const problem = problemOf(new AppError(name, ''));
  return problem.code === 'internal_error' ? '' : `${problem.status} ${code(problem.code ?? '')}`;
}

function sentence(text: string): string {
  const first = text.slice(0, 1).toUpperCase() + text.slice(1);
  return first.endsWith('.') ? first : `${first}.`;
}
