/**
 * The members of one interface or union in a source text with their doc comments. Only for declarations that are formatted as this
 * project formats them: one member a line, its comment above it.
 */
export function documentedMembers(
  source: string,
  declaration: string,
): { name: string; doc: string }[] {
  const start = source.indexOf(declaration);
  if (start < 0) throw new Error(`"${declaration}" is not in the source`);
  const members: { name: string; doc: string }[] = [];
  let doc = '';
  let comment: string | undefined;
  for (const raw of source.slice(start).split('\n').slice(1)) {
    const line = raw.trim();
    if (comment !== undefined || line.startsWith('/**')) {
      comment = `${comment ?? ''} ${line}`;
      if (!line.endsWith('*/')) continue;
      doc = plainComment(comment);
      comment = undefined;
      continue;
    }
    const name = /^(?:\| )?'?(\w+)'?/.exec(line)?.[1];
    if (name === undefined) break;
    members.push({ name, doc });
    doc = '';
    if (line.endsWith("';")) break;
  }
  return members;
}

/** The text of a doc comment, without its stars. */
export function plainComment(comment: string): string {
  return comment
    .replace(/\/\*\*|\*\//g, ' ')
    .replace(/(^|\s)\*(\s|$)/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}
