import { type Bus, connectNats } from '@busbar/bus';
import { createSubjects, decodeKvBatch } from '@busbar/protocol';
import { toBigInts } from './announced-blocks.ts';

/** What anyone on the bus hears of a worker's blocks since it began to listen. */
export class HeardBlocks implements AsyncDisposable {
  readonly blocks = new Set<bigint>();
  readonly #bus: Bus;

  private constructor(bus: Bus) {
    this.#bus = bus;
  }

  static async listen(natsUrl: string, namespace: string, workerId: string): Promise<HeardBlocks> {
    const bus = await connectNats({ url: natsUrl, name: 'heard-blocks' });
    const heard = new HeardBlocks(bus);
    bus.subscribe(createSubjects(namespace).kv(workerId), ({ data }) => {
      for (const change of decodeKvBatch(data).changes) {
        if (change.kind === 'cleared') heard.blocks.clear();
        else {
          for (const hash of toBigInts(change.hashes)) {
            if (change.kind === 'stored') heard.blocks.add(hash);
            else heard.blocks.delete(hash);
          }
        }
      }
    });
    return heard;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bus.close();
  }
}
