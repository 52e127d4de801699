#!/usr/bin/env node
'use strict';
// Plain CommonJS, because it has to run under whatever Node the machine has: it finds a Node that can run the sources.
const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');

// Stripping types and compiling is half of a process's start; all processes of all stacks share what was compiled.
process.env.NODE_COMPILE_CACHE ??= join(__dirname, '../../../node_modules/.cache/busbar');
require('node:module').enableCompileCache?.(process.env.NODE_COMPILE_CACHE);

const NEEDED = 24;
const main = join(__dirname, '..', 'src', 'main.ts');
const root = join(__dirname, '..', '..', '..');

if (Number(process.versions.node.split('.')[0]) >= NEEDED) {
  import(pathToFileURL(main).href);
} else {
  const node = join(root, 'node_modules', '.bin', 'node');
  if (existsSync(node)) runWith(node);
  else {
    process.stderr.write(
      `busbar needs Node ${NEEDED}; this is ${process.version} and ${node} is missing.\n` +
        `Run "npm install" in ${root}: it brings its own Node ${NEEDED}. Or put Node ${NEEDED} first on PATH.\n`,
    );
    process.exitCode = 2;
  }
}

/** Runs the command once more under `node`. The IPC channel tells the child when this process is gone. */
function runWith(node) {
  const child = spawn(node, [main, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
    process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`busbar could not start ${node}: ${error.message}\n`);
    process.exitCode = 1;
  });
  child.on('exit', (code, signal) => {
    if (signal) {
      process.removeAllListeners(signal);
      process.kill(process.pid, signal);
    } else process.exitCode = code ?? 1;
  });
}
