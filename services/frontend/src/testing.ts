export { SplitStack } from './scripted-split.testing.ts';
export { type Script, type ScriptedWorker, until } from './scripted-stack.testing.ts';
export { sayOk } from './scripted-worker.testing.ts';
