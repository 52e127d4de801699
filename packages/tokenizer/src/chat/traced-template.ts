import { Template } from '@huggingface/jinja';
import { type Guard, type Trace, traceTemplate } from './template-trace.ts';

/** A chat of more turns is rendered the usual way: its shape hardly comes again. */
const MAX_MESSAGES = 64;
/** Shapes are few: roles in turn. Who sends more kinds of them gets the usual way for the rest. */
const MAX_SHAPES = 512;
const SPACE = /\s/;

interface PlainMessage {
  role: string;
  content: string;
}

/**
 * A template that remembers what it did. For chats of plain messages the course of a template depends on the roles and on a few
 * tests of the texts; both are noted when a shape comes for the first time, and from then on texts that pass the same tests are
 * only joined. Everything else, and every text that fails a test, is rendered by the template itself.
 */
export class TracedTemplate {
  readonly #source: string;
  readonly #template: Template;
  readonly #traces = new Map<string, Trace | undefined>();

  constructor(source: string) {
    this.#source = source;
    this.#template = new Template(source);
  }

  /** `isPlain` says that `context` has nothing but messages and what is the same for every call with this `variant`. */
  render(context: Record<string, unknown>, variant: string, isPlain: boolean): string {
    const messages = isPlain ? plainMessages(context['messages']) : undefined;
    const trace = messages === undefined ? undefined : this.#traceOf(messages, context, variant);
    if (messages === undefined || trace === undefined || !passes(trace.guards, messages)) {
      return this.#template.render(context);
    }
    return join(trace, messages);
  }

  #traceOf(
    messages: readonly PlainMessage[],
    context: Readonly<Record<string, unknown>>,
    variant: string,
  ): Trace | undefined {
    let shape = variant;
    for (const { role } of messages) shape += `\n${role}`;
    const known = this.#traces.get(shape);
    if (known !== undefined || this.#traces.has(shape)) return known;
    if (this.#traces.size >= MAX_SHAPES) return undefined;
    const { messages: _, ...globals } = context;
    const roles = messages.map(({ role }) => role);
    const trace = traceTemplate(this.#template, this.#source, roles, globals);
    this.#traces.set(shape, trace);
    return trace;
  }
}

function plainMessages(messages: unknown): PlainMessage[] | undefined {
  if (!Array.isArray(messages) || messages.length > MAX_MESSAGES) return undefined;
  return messages.every(isPlainMessage) ? messages : undefined;
}

function isPlainMessage(message: unknown): message is PlainMessage {
  if (typeof message !== 'object' || message === null) return false;
  for (const name in message) if (name !== 'role' && name !== 'content') return false;
  return (
    'role' in message &&
    typeof message.role === 'string' &&
    'content' in message &&
    typeof message.content === 'string'
  );
}

function passes(guards: readonly Guard[], messages: readonly PlainMessage[]): boolean {
  for (const guard of guards) {
    const text = messages[guard.message]?.content;
    if (text === undefined || !holds(guard, text)) return false;
  }
  return true;
}

function holds(guard: Guard, text: string): boolean {
  switch (guard.kind) {
    case 'startsWith':
      return !text.startsWith(guard.text);
    case 'endsWith':
      return !text.endsWith(guard.text);
    case 'includes':
      return !text.includes(guard.text);
    case 'equals':
      return text !== guard.text;
    case 'notEmpty':
      return text !== '';
    case 'edges':
      return text === '' || (isFirm(text.at(0), guard.chars) && isFirm(text.at(-1), guard.chars));
  }
}

function isFirm(char: string | undefined, chars: string): boolean {
  return char !== undefined && !SPACE.test(char) && !chars.includes(char);
}

function join({ literals, slots }: Trace, messages: readonly PlainMessage[]): string {
  let text = literals[0] ?? '';
  for (let at = 0; at < slots.length; at++) {
    text += (messages[slots[at]!]?.content ?? '') + (literals[at + 1] ?? '');
  }
  return text;
}
