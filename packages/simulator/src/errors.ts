import { AppError } from '@busbar/base';

export type SimulatorErrorCode =
  /** Flags that make no sense together or alone. */
  | 'SIMULATOR_USAGE'
  /** A trace that cannot be read; the message names the line. */
  | 'SIMULATOR_BAD_TRACE';

export class SimulatorError extends AppError<SimulatorErrorCode> {}
