/** What a nats-server of a local stack is told. */
export interface NatsConfInput {
  serverName: string;
  port: number;
  storeDir: string;
}

/**
 * Configuration of the nats-server that `up` starts: loopback only, JetStream in files. Text in quotes is escaped as JSON, which
 * the server's own syntax shares.
 */
export function natsConf({ serverName, port, storeDir }: NatsConfInput): string {
  return [
    `server_name: ${JSON.stringify(serverName)}`,
    'host: "127.0.0.1"',
    `port: ${port}`,
    '# Payloads of this size are the bus contract; see docs/reference/limits.md.',
    'max_payload: 1MB',
    '# A reader that is this far behind is cut off and re-synchronizes.',
    'max_pending: 64MB',
    'write_deadline: "5s"',
    'ping_interval: "5s"',
    'jetstream {',
    `  store_dir: ${JSON.stringify(storeDir)}`,
    '  max_memory_store: 16MB',
    '  max_file_store: 1GB',
    '}',
    '',
  ].join('\n');
}
