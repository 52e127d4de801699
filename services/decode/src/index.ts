export { configSchema, type DecodeConfig } from './config.ts';
export { createDecode } from './decode.ts';
