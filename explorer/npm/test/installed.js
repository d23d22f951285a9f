// The package as its users have it: installed from what was packed, in a folder of its own.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const dist = new URL('../dist/', import.meta.url).pathname;

export const folder = mkdtempSync(join(tmpdir(), 'lockage-npm-'));
process.on('exit', () => rmSync(folder, { recursive: true }));

const [packed] = readdirSync(dist).filter((name) => name.endsWith('.tgz'));
writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}');
execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', '--silent', join(dist, packed)], { cwd: folder });
// Names are resolved from a file in that folder.
writeFileSync(join(folder, 'index.js'), "export * from 'lockage';\nexport * from 'lockage/machines';\n");

/** @type {typeof import('../js/limiter.js') & typeof import('../js/machines.js')} */
export const lockage = await import(pathToFileURL(join(folder, 'index.js')).href);
