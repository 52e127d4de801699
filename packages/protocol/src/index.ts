export * from './event.ts';
export {
  decodeFrame,
  encodeFrame,
  type Frame,
  ProtocolError,
  type ProtocolErrorCode,
} from './frame.ts';
export * from './instance.ts';
export * from './kv.ts';
export * from './life.ts';
export * from './limits.ts';
export * from './names.ts';
export * from './route.ts';
export * from './tokens.ts';
export * from './work.ts';
