import { getJson } from '../clients/http.ts';
import type { ProcessView } from '../stack/stack-view.ts';

const ADMIN_MS = 2_000;

/** What each router says on one of its pages; routers that do not answer are left out. */
export async function readRouters<T>(
  live: readonly ProcessView[],
  path: string,
  parse: (body: unknown) => T,
): Promise<Map<string, T>> {
  const routers = live.filter((view) => view.role === 'router');
  const known = new Map<string, T>();
  for (const [id, body] of await readAll(routers, path, parse)) {
    if (body !== undefined) known.set(id, body);
  }
  return known;
}

/** Asks one path of every admin port at the same time. */
export async function readAll<T>(
  live: readonly ProcessView[],
  path: string,
  parse: (body: unknown) => T,
): Promise<Map<string, T | undefined>> {
  const answers = await Promise.all(
    live.map(async ({ id, adminUrl }): Promise<[string, T | undefined]> => {
      const answer = adminUrl === undefined ? undefined : await getJson(adminUrl + path, ADMIN_MS);
      try {
        return [id, answer === undefined ? undefined : parse(answer.body)];
      } catch {
        return [id, undefined];
      }
    }),
  );
  return new Map(answers);
}
