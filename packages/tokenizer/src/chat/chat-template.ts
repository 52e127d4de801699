import { messageOf } from '@busbar/base';
import { TokenizerError } from '../errors.ts';
import type { TokenizerConfig } from '../huggingface/tokenizer-json.ts';
import type { ChatMessage, TemplateOptions } from '../port.ts';
import { normalizeMessages } from './chat-messages.ts';
import { TracedTemplate } from './traced-template.ts';

/** The chat templates of one model, compiled when first used. */
export class ChatTemplate {
  readonly #sources = new Map<string, string>();
  readonly #compiled = new Map<string, TracedTemplate>();
  readonly #tokens: Record<string, string>;

  /** `file` is the text of chat_template.jinja and goes before the configuration's default. */
  constructor(config: TokenizerConfig, file: string | undefined) {
    const { chat_template: declared } = config;
    if (typeof declared === 'string') this.#sources.set('default', declared);
    else for (const { name, template } of declared ?? []) this.#sources.set(name, template);
    if (file !== undefined) this.#sources.set('default', file);
    this.#tokens = {};
    for (const name of ['bos_token', 'eos_token', 'unk_token', 'pad_token'] as const) {
      const token = config[name];
      if (typeof token === 'string') this.#tokens[name] = token;
    }
  }

  /** Throws TokenizerError TOKENIZER_TEMPLATE: no template, a template that does not parse, or its own refusal. */
  render(messages: readonly ChatMessage[], options: TemplateOptions = {}): string {
    const { tools, addGenerationPrompt = true, extra } = options;
    const hasTools = tools !== undefined && tools.length > 0;
    const name = hasTools && this.#sources.has('tool_use') ? 'tool_use' : 'default';
    const source = this.#sources.get(name);
    if (source === undefined) {
      throw new TokenizerError('TOKENIZER_TEMPLATE', 'the model has no chat template');
    }
    const context = {
      ...extra,
      ...this.#tokens,
      messages: normalizeMessages(messages),
      tools: hasTools ? tools : null,
      add_generation_prompt: addGenerationPrompt,
    };
    const isPlain = !hasTools && isEmpty(extra);
    try {
      return this.#template(name, source).render(context, `${addGenerationPrompt}`, isPlain);
    } catch (error) {
      throw new TokenizerError('TOKENIZER_TEMPLATE', messageOf(error), error);
    }
  }

  #template(name: string, source: string): TracedTemplate {
    const known = this.#compiled.get(name);
    if (known !== undefined) return known;
    const template = new TracedTemplate(source);
    this.#compiled.set(name, template);
    return template;
  }
}

function isEmpty(extra: object | undefined): boolean {
  for (const _ in extra) return false;
  return true;
}
