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

/**
 * Publishes the card of a model. Workers of one model share it: one that would change the block size or the tokenizer under living
 * others does not start; of several context lengths the longest counts, because routers know each worker's own.
 */
export async function publishModelCard(
  bus: Bus,
  names: { models: string; instances: string },
  card: ModelCard,
  ownId: string,
): Promise<void> {
  const bucket = await bus.bucket(names.models);
  const known = await readCard(bucket, card.name);
  const other =
    known === undefined
      ? undefined
      : await findOther(await bus.bucket(names.instances), card.name, ownId);
  if (known !== undefined && other !== undefined) {
    refuseConflict(known, card, other);
    if (known.contextTokens >= card.contextTokens) return;
  }
  await bucket.put(encodeToken(card.name), encodeModelCard(card));
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

async function findOther(
  instances: Bucket,
  model: string,
  ownId: string,
): Promise<Instance | undefined> {
  for (const entry of await instances.entries()) {
    const instance = decodeOrSkip(decodeInstance, entry.value);
    if (instance?.worker?.model === model && instance.id !== ownId) return instance;
  }
  return undefined;
}
