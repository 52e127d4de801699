/**
 * True when `subject` matches `pattern` as NATS defines it: tokens are separated by dots, `*` stands for exactly one
 * token, a final `>` for one or more.
 */
export function matchesSubject(pattern: string, subject: string): boolean {
  const wanted = pattern.split('.');
  const given = subject.split('.');
  for (const [i, token] of wanted.entries()) {
    if (token === '>') return given.length > i;
    if (i >= given.length || (token !== '*' && token !== given[i])) return false;
  }
  return wanted.length === given.length;
}

const KEY = /^[-/=\w]+(\.[-/=\w]+)*$/;

/** Throws on a key that JetStream would refuse. */
export function checkKey(key: string): void {
  if (!KEY.test(key)) throw new Error(`invalid key: ${key}`);
}
