import type { GpuFacts } from '@busbar/engine';
import type { Env } from '../context.ts';
import type { StackState } from '../state.ts';
import type { HostView } from './facts.ts';

/** Looks at this machine as an engine that starts would. The engine's code is only loaded here: it brings native libraries. */
export async function gatherHost(state: StackState | undefined, env: Env): Promise<HostView> {
  const { gatherHostFacts, judgeHost, VLLM_DEFAULTS } = await import('@busbar/engine');
  const modelPath = state?.modelPath ?? env['BUSBAR_MODEL_PATH'];
  const told = state?.vllmCommand ?? env['BUSBAR_VLLM_COMMAND'];
  const command = told ?? (state?.engine === 'vllm' ? VLLM_DEFAULTS.command : undefined);
  const facts = await gatherHostFacts({
    ...(command === undefined ? {} : { command }),
    ...(modelPath === undefined ? {} : { modelPath }),
    env,
  });
  return {
    findings: judgeHost(facts),
    hasModel: modelPath !== undefined,
    ...(facts.gpu === undefined ? {} : { build: describe(facts.gpu) }),
  };
}

function describe({ isCpuBuild, torchCuda, driverVersion, driverCuda }: GpuFacts): string {
  if (isCpuBuild) return 'vLLM is a build for CPUs and needs no driver';
  const driver =
    driverVersion === undefined
      ? 'no NVIDIA driver'
      : `driver ${driverVersion}${driverCuda === undefined ? '' : ` (CUDA ${driverCuda})`}`;
  return `${torchCuda === undefined ? 'vLLM was not found' : `vLLM for CUDA ${torchCuda}`}, ${driver}`;
}
