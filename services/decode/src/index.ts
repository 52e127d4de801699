export { type DecodeConfig, decodeConfigSchema } from './config.ts';
export { createDecode } from './decode.ts';
