import { messageOf } from '@busbar/base';
import { type Bus, connectNats } from '@busbar/bus';
import { CliError } from '../errors.ts';

/**
 * A connection of this command to the bus. `onError` hears of messages that could not be read. Throws CLI_NO_STACK when NATS does
 * not answer.
 */
export async function connectBus(
  natsUrl: string,
  name: string,
  onError: (error: unknown) => void = () => {},
): Promise<Bus> {
  try {
    return await connectNats({ url: natsUrl, name: `busbar-${name}`, onError });
  } catch (error) {
    throw new CliError('CLI_NO_STACK', `NATS at ${natsUrl} cannot be used: ${messageOf(error)}`, {
      cause: error,
    });
  }
}
