export type { LinkProbe } from './link-account.ts';
export { type FetchReport, type LinkFigures, LinkLedger } from './link-ledger.ts';
