import { getJson } from '../http.ts';
import type { ProcessView } from '../stack-view.ts';
import { type RouterWorker, routerWorkersSchema } from './facts.ts';

const ADMIN_MS = 2_000;

/** What each router believes of each worker. */
export async function readRouters(
  live: readonly ProcessView[],
): Promise<Map<string, readonly RouterWorker[]>> {
  const routers = live.filter((view) => view.role === 'router');
  const bodies = await readAll(routers, '/workers', (body) => routerWorkersSchema.parse(body));
  const known = new Map<string, readonly RouterWorker[]>();
  for (const [id, workers] of bodies) if (workers !== undefined) known.set(id, workers);
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
