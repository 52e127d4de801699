import type { Bucket, Bus } from '@busbar/bus';
import {
  decodeInstance,
  decodeModelCard,
  decodeOrSkip,
  encodeModelCard,
  encodeToken,
  type Instance,
  type ModelCard,
} from '@busbar/protocol';
import { ServiceError } from '@busbar/service';

interface Names {
  models: string;
  instances: string;
}

/**
 * Publishes the card of a model. Workers of one model share it: one that would change the block size or the tokenizer under living
 * others does not start; of several context lengths the longest counts, because routers know each worker's own.
 */
export async function publishModelCard(
  bus: Bus,
  names: Names,
  card: ModelCard,
  ownId: string,
): Promise<void> {
  const known = await checkModelCard(bus, names, card, ownId);
  if (known !== undefined && known.contextTokens >= card.contextTokens) return;
  const bucket = await bus.bucket(names.models);
  await bucket.put(encodeToken(card.name), encodeModelCard(card));
}

/**
 * The card that living workers of the model share, if there is one; rejects with SERVICE_CONFLICT when `card` contradicts it. A prefill
 * worker asks and publishes nothing: alone it serves nobody.
 */
export async function checkModelCard(
  bus: Bus,
  names: Names,
  card: ModelCard,
  ownId: string,
): Promise<ModelCard | undefined> {
  const known = await readCard(await bus.bucket(names.models), card.name);
  if (known === undefined) return undefined;
  const other = await findOther(await bus.bucket(names.instances), card.name, ownId);
  if (other === undefined) return undefined;
  refuseConflict(known, card, other);
  return known;
}

/** Writes the card again when the bucket has lost it, as after a server that came back without its data. */
export async function restoreModelCard(bus: Bus, models: string, card: ModelCard): Promise<void> {
  const bucket = await bus.bucket(models);
  if ((await readCard(bucket, card.name)) === undefined) {
    await bucket.put(encodeToken(card.name), encodeModelCard(card));
  }
}

function refuseConflict(known: ModelCard, own: ModelCard, other: Instance): void {
  const difference =
    known.blockSize !== own.blockSize
      ? `a block size of ${known.blockSize}, not ${own.blockSize}`
      : known.tokenizerDigest !== own.tokenizerDigest
        ? 'another tokenizer.json'
        : undefined;
  if (difference === undefined) return;
  throw new ServiceError(
    'SERVICE_CONFLICT',
    `Model "${own.name}" is served by ${other.id} with ${difference}; use the same or another BUSBAR_MODEL.`,
  );
}

async function readCard(bucket: Bucket, model: string): Promise<ModelCard | undefined> {
  const entry = await bucket.get(encodeToken(model));
  return entry === undefined ? undefined : decodeOrSkip(decodeModelCard, entry.value);
}

/** A worker that serves the model by the card in the bucket. */
async function findOther(
  instances: Bucket,
  model: string,
  ownId: string,
): Promise<Instance | undefined> {
  for (const entry of await instances.entries()) {
    const instance = decodeOrSkip(decodeInstance, entry.value);
    const isServing = instance?.role === 'decode' && instance.worker?.model === model;
    if (isServing && instance.id !== ownId) return instance;
  }
  return undefined;
}
