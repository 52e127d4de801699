export {
  type CloudEvent,
  createCloudEvent,
  decodeCloudEvent,
  encodeCloudEvent,
} from './event.ts';
export {
  decodeOrSkip,
  ProtocolError,
  type ProtocolErrorCode,
} from './frame.ts';
export { decodeHeldDecisions, encodeHeldDecisions, type HeldDecisions } from './held.ts';
export {
  decodeInstance,
  decodeModelCard,
  decodeWorkerLoad,
  type EngineLoad,
  encodeInstance,
  encodeModelCard,
  encodeWorkerLoad,
  type Instance,
  instanceKey,
  type ModelCard,
  ROLES,
  type Role,
  type WorkerInfo,
  type WorkerLoad,
} from './instance.ts';
export {
  decodeKvBatch,
  decodeKvSyncReply,
  decodeKvSyncRequest,
  encodeKvBatch,
  encodeKvSyncReply,
  encodeKvSyncRequest,
  type KvBatch,
  type KvChange,
  type KvSyncReply,
  type KvSyncRequest,
  splitKvChanges,
  TIERS,
  type Tier,
} from './kv.ts';
export {
  type BookedEvent,
  decodeLifeBatch,
  encodeLifeBatch,
  type LifeBatch,
  type LifeEvent,
  type Outcome,
} from './life.ts';
export {
  LIMITS,
  type LimitName,
  limit,
} from './limits.ts';
export {
  type BucketNames,
  bucketNames,
  createSubjects,
  decodeToken,
  EVENT_KINDS,
  type EventKind,
  encodeToken,
  isProcessId,
  lastToken,
  NAMESPACE,
  PROCESS_ID,
  PROTOCOL_VERSION,
  ROUTER_QUEUE,
  type Subjects,
} from './names.ts';
export {
  decodeRouteReply,
  decodeRouteRequest,
  encodeRouteReply,
  encodeRouteRequest,
  type HashWords,
  type RouteReply,
  type RouteRequest,
} from './route.ts';
export {
  decodeTokenBatch,
  encodeTokenBatch,
  type FinishReason,
  type StreamDelta,
  type TokenBatch,
} from './tokens.ts';
export {
  decodeLinkRecord,
  encodeLinkRecord,
  type KvSource,
  type LinkRecord,
  linkKey,
  parseTransferParams,
  TRANSFER_PROTOCOLS,
  type TransferInfo,
  type TransferParams,
  type TransferProtocol,
  transferParamsBytes,
} from './transfer.ts';
export {
  decodeCancel,
  decodeStreamPositions,
  decodeWork,
  decodeWorkAck,
  encodeCancel,
  encodeStreamPositions,
  encodeStreamsQuestion,
  encodeWork,
  encodeWorkAck,
  type Sampling,
  type WorkAck,
  type WorkHeader,
} from './work.ts';
