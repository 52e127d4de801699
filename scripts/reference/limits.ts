import { LIMITS } from '@busbar/protocol';
import { code, markdownTable, type Page, page } from './page.ts';

/** Every limit of the wire and of a request, with its reason. */
export function limitsPage(): Page {
  const rows = Object.entries(LIMITS).map(([name, { value, reason }]) => [
    code(name),
    value.toLocaleString('en-US'),
    reason,
  ]);
  return page(
    'limits.md',
    'Limits',
    'Everything that could grow without end has a limit. They are part of the contract between processes: `packages/protocol/src/limits.ts`. The unit is the last word of the name.',
    [markdownTable(['limit', 'value', 'why'], rows)],
  );
}
