/** A piece of text, or the id of an added token that stood in the text. */
export type Section = string | number;

const SYNTAX = /[\\^$.*+?()[\]{}|/-]/g;

/** Cuts text at added tokens: leftmost first, of two that begin at the same place the longer one. Linear in the text. */
export class AddedTokenSplitter {
  readonly #ids = new Map<string, number>();
  readonly #pattern: RegExp | undefined;

  constructor(tokens: readonly { readonly id: number; readonly content: string }[]) {
    for (const { id, content } of tokens) this.#ids.set(content, id);
    const longestFirst = [...this.#ids.keys()].toSorted((a, b) => b.length - a.length);
    if (longestFirst.length === 0) return;
    const source = longestFirst.map((content) => content.replace(SYNTAX, String.raw`\$&`));
    this.#pattern = new RegExp(source.join('|'), 'g');
  }

  /** The sections in order; no empty strings. Undefined when they would be more than `most`. */
  split(text: string): Section[];
  split(text: string, most: number): Section[] | undefined;
  split(text: string, most = Infinity): Section[] | undefined {
    const pattern = this.#pattern;
    if (pattern === undefined) return text === '' ? [] : [text];
    const sections: Section[] = [];
    let end = 0;
    pattern.lastIndex = 0;
    for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
      if (match.index > end) sections.push(text.slice(end, match.index));
      sections.push(this.#ids.get(match[0])!);
      if (sections.length > most) return undefined;
      end = pattern.lastIndex;
    }
    if (end < text.length) sections.push(end === 0 ? text : text.slice(end));
    return sections;
  }
}
