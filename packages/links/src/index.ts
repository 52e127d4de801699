export type { ProbeResult } from './link-account.ts';
export { type LinkFigures, LinkLedger, type TransferEnd } from './link-ledger.ts';
