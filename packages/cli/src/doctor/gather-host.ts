import { messageOf } from '@busbar/base';
import type { GpuFacts } from '@busbar/engine';
import { shellWords } from '@busbar/service';
import type { Env } from '../context.ts';
import type { StackState } from '../stack/state.ts';
import type { HostView } from './facts.ts';

/** Looks at this machine as an engine that starts would. The engine's code is only loaded here: it brings native libraries. */
export async function gatherHost(state: StackState | undefined, env: Env): Promise<HostView> {
  const { gatherHostFacts, judgeHost, VLLM_DEFAULTS } = await import('@busbar/engine');
  const modelPath = state?.modelPath ?? env['BUSBAR_MODEL_PATH'];
  const startsVllm = state?.engine === 'vllm' && state.isAttached !== true;
  const text =
    state?.vllmCommand ??
    (env['BUSBAR_VLLM_COMMAND'] || undefined) ??
    (startsVllm ? VLLM_DEFAULTS.command : undefined);
  const command = text === undefined ? {} : readCommand(text);
  const facts = await gatherHostFacts({
    ...(command.words === undefined ? {} : { command: command.words }),
    ...(modelPath === undefined ? {} : { modelPath }),
    env,
  });
  const view: HostView = { findings: judgeHost(facts), hasModel: modelPath !== undefined };
  if (command.refusal !== undefined) view.command = { problem: command.refusal, isRefused: true };
  else if (text !== undefined && facts.vllmVersion === undefined) {
    const problem = `which vLLM "${text}" runs cannot be told from its files`;
    view.command = { problem, isRefused: false };
  } else if (facts.gpu !== undefined) view.build = describe(facts.gpu);
  return view;
}

/** The words that a worker would run, or its sentence when it would refuse them. */
function readCommand(text: string): { words?: string[]; refusal?: string } {
  try {
    return { words: shellWords('BUSBAR_VLLM_COMMAND', text) };
  } catch (error) {
    return { refusal: messageOf(error) };
  }
}

function describe({ isCpuBuild, torchCuda, driverVersion, driverCuda }: GpuFacts): string {
  if (isCpuBuild) return 'vLLM is a build for CPUs and needs no driver';
  const driver =
    driverVersion === undefined
      ? 'no NVIDIA driver'
      : `driver ${driverVersion}${driverCuda === undefined ? '' : ` (CUDA ${driverCuda})`}`;
  return `${torchCuda === undefined ? 'vLLM without CUDA' : `vLLM for CUDA ${torchCuda}`}, ${driver}`;
}
