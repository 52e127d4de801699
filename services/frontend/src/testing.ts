export { SplitStack } from './scripted-split.ts';
export { type Script, type ScriptedWorker, until } from './scripted-stack.ts';
export { sayOk } from './scripted-worker.ts';
