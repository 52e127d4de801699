import type { Clock } from '@busbar/base';
import { limit, type WorkAck, type WorkHeader } from '@busbar/protocol';

/** A request whose prompt is complete. */
export interface Work {
  header: WorkHeader;
  tokens: Uint32Array;
}

export type IntakeResult =
  | { kind: 'complete'; work: Work }
  /** A part was taken; more must follow. */
  | { kind: 'partial' }
  | { kind: 'refused'; ack: WorkAck };

interface Assembly {
  parts: number;
  nextPart: number;
  tokens: Uint32Array;
  filled: number;
  touchedAtMs: number;
}

const MAX_ASSEMBLIES = 32;
const PART_TIMEOUT_MS = 10_000;

/** A refusal that no other worker would answer differently. */
export function badRequest(message: string): WorkAck {
  return { kind: 'refused', code: 'WORKER_BAD_REQUEST', message, retryable: false };
}

/**
 * Puts prompts together that came in several messages. Parts come in order; a prompt whose next part does not come in
 * time, or that is one too many, is dropped.
 */
export class WorkIntake {
  readonly #clock: Clock;
  readonly #assemblies = new Map<string, Assembly>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get open(): number {
    return this.#assemblies.size;
  }

  take(header: WorkHeader, tokens: Uint32Array): IntakeResult {
    const parts = header.parts ?? 1;
    const part = header.part ?? 0;
    if (header.promptTokens > limit('promptTokens')) {
      return refused(badRequest(`more than ${limit('promptTokens')} prompt tokens`));
    }
    if (parts === 1) return complete(header, tokens);
    const name = assemblyName(header.frontendId, header.streamId);
    const assembly = part === 0 ? this.#begin(name, header, parts) : this.#assemblies.get(name);
    if (assembly === undefined) {
      return refused(
        part === 0
          ? {
              kind: 'refused',
              code: 'WORKER_FULL',
              message: 'too many long prompts at once',
              retryable: true,
            }
          : badRequest(`part ${part} of a prompt that is not known`),
      );
    }
    const end = assembly.filled + tokens.length;
    if (part !== assembly.nextPart || parts !== assembly.parts || end > assembly.tokens.length) {
      this.#assemblies.delete(name);
      return refused(badRequest(`part ${part} of ${parts} does not follow what came before`));
    }
    assembly.tokens.set(tokens, assembly.filled);
    assembly.filled = end;
    assembly.nextPart++;
    assembly.touchedAtMs = this.#clock.monotonicMs();
    if (assembly.nextPart < parts) return { kind: 'partial' };
    this.#assemblies.delete(name);
    return complete(header, assembly.tokens.subarray(0, assembly.filled));
  }

  drop(frontendId: string, streamId: number): void {
    this.#assemblies.delete(assemblyName(frontendId, streamId));
  }

  /** Drops prompts whose next part is overdue. */
  expire(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [name, assembly] of this.#assemblies) {
      if (nowMs - assembly.touchedAtMs > PART_TIMEOUT_MS) this.#assemblies.delete(name);
    }
  }

  #begin(name: string, header: WorkHeader, parts: number): Assembly | undefined {
    this.#assemblies.delete(name);
    this.expire();
    if (this.#assemblies.size >= MAX_ASSEMBLIES) return undefined;
    const assembly: Assembly = {
      parts,
      nextPart: 0,
      tokens: new Uint32Array(header.promptTokens),
      filled: 0,
      touchedAtMs: this.#clock.monotonicMs(),
    };
    this.#assemblies.set(name, assembly);
    return assembly;
  }
}

function complete(header: WorkHeader, tokens: Uint32Array): IntakeResult {
  if (tokens.length !== header.promptTokens) {
    return refused(
      badRequest(`${tokens.length} prompt tokens came, ${header.promptTokens} were announced`),
    );
  }
  return { kind: 'complete', work: { header, tokens } };
}

function refused(ack: WorkAck): IntakeResult {
  return { kind: 'refused', ack };
}

function assemblyName(frontendId: string, streamId: number): string {
  return `${frontendId}.${streamId}`;
}
