export { type FaultProxy, startFaultProxy } from './fault-proxy.ts';
export { freePort } from './free-port.ts';
export { type NatsServer, type NatsServerOptions, startNatsServer } from './nats-server.ts';
export { type ManagedProcess, type SpawnOptions, spawnProcess } from './spawn-process.ts';
export { readSse, type SseEvent } from './sse.ts';
export { waitFor } from './wait-for.ts';
