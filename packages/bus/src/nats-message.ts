import { type Msg, type MsgHdrs, headers as natsHeaders } from '@nats-io/nats-core';
import type { BusMessage } from './port.ts';

export type Respond = (
  subject: string,
  data: Uint8Array,
  headers: Record<string, string> | undefined,
) => void;

/** A view of the client library's message; nothing is decoded or copied before it is asked for. */
export class NatsMessage implements BusMessage {
  readonly #raw: Msg;
  readonly #respond: Respond;

  constructor(raw: Msg, respond: Respond) {
    this.#raw = raw;
    this.#respond = respond;
  }

  get subject(): string {
    return this.#raw.subject;
  }

  get data(): Uint8Array {
    return this.#raw.data;
  }

  get headers(): Record<string, string> | undefined {
    return fromNatsHeaders(this.#raw.headers);
  }

  respond(data: Uint8Array, headers?: Record<string, string>): boolean {
    const reply = this.#raw.reply;
    if (!reply) return false;
    this.#respond(reply, data, headers);
    return true;
  }
}

export function toNatsHeaders(headers: Record<string, string>): MsgHdrs {
  const encoded = natsHeaders();
  for (const [name, value] of Object.entries(headers)) encoded.set(name, value);
  return encoded;
}

function fromNatsHeaders(encoded: MsgHdrs | undefined): Record<string, string> | undefined {
  if (encoded === undefined) return undefined;
  const headers: Record<string, string> = {};
  for (const [name, values] of encoded) headers[name] = values[0] ?? '';
  return headers;
}
