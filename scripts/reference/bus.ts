import { readFileSync } from 'node:fs';
import { bucketNames, createSubjects, EVENT_KINDS, PROTOCOL_VERSION } from '@busbar/protocol';
import { documentedMembers } from './doc-comments.ts';
import { code, markdownTable, type Page, page, wrap } from './page.ts';

const NAMESPACE = 'default';

/** Subjects, buckets and event kinds, from the code that builds their names. */
export function busPage(): Page {
  const source = readFileSync(
    new URL('../../packages/protocol/src/names.ts', import.meta.url),
    'utf8',
  );
  const subjects = createSubjects(NAMESPACE);
  const rows = Object.entries(subjects)
    .filter(([name]) => !name.endsWith('All') && name !== 'tokensTo')
    .map(([name, build]) => [
      code(subjectName(source, name, build)),
      docOf(source, 'Subjects', name),
    ]);
  const buckets = Object.entries(bucketNames(NAMESPACE)).map(([name, bucket]) => [
    code(bucket),
    docOf(source, 'BucketNames', name),
  ]);
  return page(
    'bus.md',
    'Subjects, buckets and events',
    `Protocol version ${PROTOCOL_VERSION}. Names are those of the namespace \`${NAMESPACE}\`; \`packages/protocol\` is the only place that builds them. A model name is encoded so that it is one token.`,
    [
      '## Subjects',
      markdownTable(['subject', 'what it carries'], rows),
      '## Buckets',
      'JetStream KV, kept in files.',
      markdownTable(['bucket', 'what it holds'], buckets),
      '## Events',
      wrap(
        `CloudEvents 1.0 in JSON, with the type ${code('busbar.<kind>')}. ${code('request.completed')} is sent only while somebody listens: a new listener may miss those of the first 1.25 s. It tells of each chat and completion how it ended, as ${code('busbar_frontend_requests_total')} counts them: ${code('outcome')}, ${code('model')}, ${code('candidates')}, ${code('workerIds')} (where each was placed last), tokens and times, and ${code('errorCode')}, the code of the error body when there was one. Its subject is the id of the answer, or the ${code('x-request-id')} of a request that was refused before a router was asked.`,
      ),
      EVENT_KINDS.map((kind) => `- ${code(kind)}`).join('\n'),
    ],
  );
}

/** The subject with what varies in angle brackets. */
function subjectName(source: string, name: string, build: unknown): string {
  if (typeof build === 'string') return build.replace('*', '<worker>');
  if (typeof build !== 'function') throw new Error(`${name} builds no subject`);
  const holes = holesOf(source, name);
  const stand = holes.map((_, i) => `x${i}`);
  let subject = String(Reflect.apply(build, undefined, stand));
  for (const [i, hole] of holes.entries()) subject = subject.replace(`x${i}`, `<${hole}>`);
  return subject;
}

/** What its parameters are called: `held(frontendId: string)` has a frontend. */
function holesOf(source: string, name: string): string[] {
  const parameters = new RegExp(`^  ${name}\\(([^)]+)\\): string;`, 'm').exec(source)?.[1];
  if (parameters === undefined) throw new Error(`${name} of Subjects has no parameters`);
  return parameters.split(', ').map((parameter) => parameter.replace(/(?:Id)?: .*/, ''));
}

function docOf(source: string, type: string, member: string): string {
  const found = documentedMembers(source, `export interface ${type} {`).find(
    ({ name }) => name === member,
  );
  return found?.doc ?? '';
}
