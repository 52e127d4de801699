import { connectNats } from '@busbar/bus';

/** Asks itself over the server at the URL of its command line, and prints how many bytes the answer has. */
const [url = '', bytes = '0'] = process.argv.slice(2);
const bus = await connectNats({ url, name: 'tls' });
bus.subscribe('echo', (message) => void message.respond(message.data));
await bus.flush();
const { data } = await bus.request('echo', new Uint8Array(Number(bytes)), { timeoutMs: 5_000 });
process.stdout.write(`${data.length}\n`);
await bus.close();
