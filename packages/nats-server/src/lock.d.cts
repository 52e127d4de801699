/** Runs `work` while no other process holds the lock `file`; takes over from dead processes. */
export declare function withLock<T>(
  file: string,
  work: () => Promise<T> | T,
  onWait?: (pid: number) => void,
): Promise<T>;
