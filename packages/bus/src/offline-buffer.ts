/** Fixed cost of one buffered message besides its payload; keeps many empty messages within the bound as well. */
const MESSAGE_BYTES = 200;

export interface BufferedMessage {
  subject: string;
  data: Uint8Array;
  headers: Record<string, string> | undefined;
}

/** Messages published while there is no connection, in order, up to a bound in bytes. */
export class OfflineBuffer {
  readonly #limitBytes: number;
  #messages: BufferedMessage[] = [];
  #bytes = 0;

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /** False, and the message is not kept, when it does not fit any more. */
  push(message: BufferedMessage): boolean {
    const bytes = message.data.length + MESSAGE_BYTES;
    if (this.#bytes + bytes > this.#limitBytes) return false;
    this.#bytes += bytes;
    this.#messages.push(message);
    return true;
  }

  /** Takes all messages out. */
  drain(): BufferedMessage[] {
    const messages = this.#messages;
    this.#messages = [];
    this.#bytes = 0;
    return messages;
  }
}
