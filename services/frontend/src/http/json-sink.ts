import type { ServerResponse } from 'node:http';
import {
  type AnswerChoice,
  type AnswerHead,
  type ApiFinishReason,
  answerBody,
  type Problem,
  type UsageTokens,
} from '@busbar/openai';
import { sendJson, sendProblem } from './error-response.ts';
import type { AnswerSink } from './sink.ts';

/** Gathers the whole answer and sends it at the end. */
export class JsonSink implements AnswerSink {
  readonly #response: ServerResponse;
  readonly #head: AnswerHead;
  readonly #choices: AnswerChoice[];

  constructor(response: ServerResponse, head: AnswerHead, choices: number) {
    this.#response = response;
    this.#head = head;
    this.#choices = Array.from({ length: choices }, () => ({ text: '', finishReason: 'stop' }));
  }

  text(index: number, text: string): void {
    const choice = this.#choices[index];
    if (choice !== undefined) choice.text += text;
  }

  finish(index: number, reason: ApiFinishReason): void {
    const choice = this.#choices[index];
    if (choice !== undefined) choice.finishReason = reason;
  }

  complete(usage: UsageTokens): void {
    if (this.#response.headersSent || this.#response.destroyed) return;
    sendJson(this.#response, 200, answerBody(this.#head, this.#choices, usage));
  }

  fail(problem: Problem): void {
    sendProblem(this.#response, problem);
  }
}
