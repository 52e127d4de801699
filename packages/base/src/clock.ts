/** The one source of time of a shell. Cores never hold a Clock: they take `nowMs` as an argument. */
export interface Clock {
  /** Milliseconds that only grow, fractional, origin unspecified. Use for durations and deadlines. */
  monotonicMs(): number;
  /** Milliseconds since the Unix epoch. Use for timestamps that leave the process. */
  wallMs(): number;
}
