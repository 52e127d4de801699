/** One entry of GET /v1/models. */
export interface ModelEntry {
  id: string;
  /** Seconds since the Unix epoch. */
  created: number;
  contextTokens: number;
  /** The model that this one is an adapter of. */
  parent?: string;
}

function toModel(entry: ModelEntry): object {
  return {
    id: entry.id,
    object: 'model',
    created: entry.created,
    owned_by: 'busbar',
    max_model_len: entry.contextTokens,
    ...(entry.parent === undefined ? {} : { parent: entry.parent }),
  };
}

export function modelBody(entry: ModelEntry): string {
  return JSON.stringify(toModel(entry));
}

export function modelListBody(entries: readonly ModelEntry[]): string {
  return JSON.stringify({ object: 'list', data: entries.map(toModel) });
}
