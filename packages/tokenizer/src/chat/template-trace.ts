import { Environment, Interpreter, type Template } from '@huggingface/jinja';

/** What must hold of the text of one message so that the template treats it as it treated the stand-in. */
export type Guard =
  | { kind: 'startsWith' | 'endsWith' | 'includes' | 'equals'; message: number; text: string }
  /** Stripping changes nothing: neither end is white space or one of `chars`. */
  | { kind: 'edges'; message: number; chars: string }
  | { kind: 'notEmpty'; message: number };

/** What a template writes for any texts that pass the guards: `literals[0] text[slots[0]] literals[1] …`. */
export interface Trace {
  guards: readonly Guard[];
  literals: readonly string[];
  slots: readonly number[];
}

/** Stands for the text of one message: private-use characters that no template tests for, no white space, never empty. */
const standIn = (message: number): string => `\uE000${message}\uE001`;
const STAND_IN = /\uE000(\d+)\uE001/;
const EVERY_STAND_IN = new RegExp(STAND_IN, 'g');

interface Node {
  readonly type: string;
}
interface Value {
  readonly type: string;
  readonly value: unknown;
}
interface Evaluator {
  run(program: unknown): Value;
  evaluate(node: Node, environment: object): Value;
}
/** The library's own declarations cannot be resolved here; this is the part of them that is used. */
const BaseInterpreter: new (environment: object) => Evaluator = Interpreter;
const BaseEnvironment: new () => { set(name: string, value: unknown): unknown } = Environment;

/** Tests that look at the type of a value only. */
const TYPE_TESTS = new Set(['defined', 'undefined', 'none', 'string', 'mapping', 'iterable']);
/** Globals of the library that would make a trace depend on more than its messages. */
const UNTRACEABLE = /\b(strftime_now|range)\b/;

const CONSTANTS = { false: false, true: true, none: null, False: false, True: true, None: null };

class Untraceable extends Error {}

/**
 * Runs a template once on stand-ins for the texts of messages with these roles, and notes what its course depended on. Undefined
 * when a text is used for anything but to be written, joined, tested by a guard or stripped. `globals` are the other variables.
 */
export function traceTemplate(
  template: Template,
  source: string,
  roles: readonly string[],
  globals: Readonly<Record<string, unknown>>,
): Trace | undefined {
  if (UNTRACEABLE.test(source)) return undefined;
  const environment = new BaseEnvironment();
  const variables = {
    ...CONSTANTS,
    raise_exception: () => {
      throw new Untraceable();
    },
    ...globals,
    messages: roles.map((role, at) => ({ role, content: standIn(at) })),
  };
  for (const [name, value] of Object.entries(variables)) environment.set(name, value);
  const interpreter = new TracingInterpreter(environment);
  let text: unknown;
  try {
    text = interpreter.run(template.parsed).value;
  } catch {
    // The usual way says what is wrong, if anything is.
    return undefined;
  }
  if (typeof text !== 'string') return undefined;
  const parts = text.split(EVERY_STAND_IN);
  return {
    guards: interpreter.guards,
    literals: parts.filter((_, at) => at % 2 === 0),
    slots: parts.filter((_, at) => at % 2 === 1).map(Number),
  };
}

/** Follows the stand-ins through every expression, and gives up where one is used in a way that no guard describes. */
class TracingInterpreter extends BaseInterpreter {
  readonly guards: Guard[] = [];
  /** Evaluates an operand again without being followed. */
  readonly #plain: Evaluator;
  #sawText = false;

  constructor(environment: object) {
    super(environment);
    this.#plain = new BaseInterpreter(environment);
  }

  override evaluate(node: Node, environment: object): Value {
    const outerSawText = this.#sawText;
    this.#sawText = false;
    const value = super.evaluate(node, environment);
    const isMethodOfText = this.#sawText && value.type === 'FunctionValue';
    if (this.#sawText) this.#check(node, environment, value);
    this.#sawText = outerSawText || isMethodOfText || holdsText(value);
    return value;
  }

  #check(node: Node, environment: object, value: Value): void {
    const of = (name: string): Value => this.#operand(node, name, environment);
    switch (node.type) {
      case 'Program':
      case 'For':
      case 'Set':
      case 'ArrayLiteral':
      case 'TupleLiteral':
        return;
      case 'If':
        return this.#truth(of('test'));
      case 'Ternary':
        return this.#truth(of('condition'));
      case 'UnaryExpression':
        return this.#truth(of('argument'));
      case 'BinaryExpression':
        return this.#binary(operatorOf(node), of('left'), of('right'));
      case 'TestExpression':
        if (TYPE_TESTS.has(nameOf(node, 'test'))) return;
        throw new Untraceable();
      case 'FilterExpression':
        return this.#filter(nameOf(node, 'filter'), of('operand'), value);
      case 'MemberExpression':
        // A method of a text is judged where it is called.
        if (isText(of('object')) && value.type !== 'FunctionValue') throw new Untraceable();
        return;
      case 'CallExpression':
        return this.#call(node, environment, value);
      default:
        throw new Untraceable();
    }
  }

  #binary(operator: string, left: Value, right: Value): void {
    if (operator === '+' || operator === '~') return;
    if (operator === 'and' || operator === 'or') return this.#truth(left);
    if (isText(left) || isText(right)) {
      if (operator === 'in' || operator === 'not in') {
        return this.#guard('includes', right, left);
      }
      if (operator === '==' || operator === '!=') {
        return isText(left)
          ? this.#guard('equals', left, right)
          : this.#guard('equals', right, left);
      }
    } else if (operator !== 'in' && operator !== 'not in') return;
    throw new Untraceable();
  }

  #filter(name: string, operand: Value, value: Value): void {
    if (name === 'length' && !isText(operand)) return;
    if (name === 'trim' && value.value === operand.value) return this.#edges(operand, '');
    throw new Untraceable();
  }

  #call(node: Node, environment: object, value: Value): void {
    const callee = nodeAt(node, 'callee');
    const args = nodesAt(node, 'args').map((arg) => this.#plain.evaluate(arg, environment));
    if (nameOf(node, 'callee') === 'namespace' || args.some(holdsText)) {
      if (nameOf(node, 'callee') === 'namespace') return;
      throw new Untraceable();
    }
    if (callee?.type !== 'MemberExpression') throw new Untraceable();
    const object = this.#operand(callee, 'object', environment);
    const method = nameOf(callee, 'property');
    const [first] = args;
    if (args.length > 1) throw new Untraceable();
    if (method === 'startswith' && first !== undefined)
      return this.#guard('startsWith', object, first);
    if (method === 'endswith' && first !== undefined) return this.#guard('endsWith', object, first);
    if (/^[lr]?strip$|^trim$/.test(method) && value.value === object.value) {
      return this.#edges(object, first === undefined ? '' : plainText(first));
    }
    throw new Untraceable();
  }

  #truth(value: Value): void {
    if (isText(value)) this.guards.push({ kind: 'notEmpty', message: messageOf(value) });
  }

  #edges(value: Value, chars: string): void {
    this.guards.push({ kind: 'edges', message: messageOf(value), chars });
  }

  /** Only tests that the stand-in fails can be held: its own characters are in no template. */
  #guard(kind: 'startsWith' | 'endsWith' | 'includes' | 'equals', of: Value, by: Value): void {
    const text = plainText(by);
    if (text === '') throw new Untraceable();
    this.guards.push({ kind, message: messageOf(of), text });
  }

  #operand(node: Node, name: string, environment: object): Value {
    const operand = nodeAt(node, name);
    if (operand === undefined) throw new Untraceable();
    return this.#plain.evaluate(operand, environment);
  }
}

function isText(value: Value): boolean {
  return value.type === 'StringValue' && STAND_IN.test(String(value.value));
}

/** Whether a value is a text or holds one somewhere inside. */
function holdsText(value: Value): boolean {
  if (isText(value)) return true;
  const inner: unknown = value.value;
  if (Array.isArray(inner)) return inner.some(holdsText);
  return inner instanceof Map && [...inner.values()].some(holdsText);
}

/** The message whose whole text the value is. */
function messageOf(value: Value): number {
  const text = String(value.value);
  const message = STAND_IN.exec(text)?.[1];
  if (message === undefined || text !== standIn(Number(message))) throw new Untraceable();
  return Number(message);
}

function plainText(value: Value): string {
  if (value.type !== 'StringValue' || isText(value)) throw new Untraceable();
  return String(value.value);
}

function nodeAt(node: Node, name: string): Node | undefined {
  const child: unknown = Reflect.get(node, name);
  return isNode(child) ? child : undefined;
}

function nodesAt(node: Node, name: string): Node[] {
  const children: unknown = Reflect.get(node, name);
  return Array.isArray(children) ? children.filter(isNode) : [];
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value;
}

/** The name that an identifier in this place has; empty for anything else. */
function nameOf(node: Node, place: string): string {
  const child = nodeAt(node, place);
  const name: unknown = child?.type === 'Identifier' ? Reflect.get(child, 'value') : undefined;
  return typeof name === 'string' ? name : '';
}

function operatorOf(node: Node): string {
  const operator: unknown = Reflect.get(node, 'operator');
  return typeof operator === 'object' && operator !== null
    ? String(Reflect.get(operator, 'value'))
    : '';
}
