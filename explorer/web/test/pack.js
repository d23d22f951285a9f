// Packs the page: node pack.js MODULE ZONES. See explorer/build.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { splitZones } from './zones.js';

const [module, zoneData] = process.argv.slice(2);
const web = new URL('../', import.meta.url);
const dist = new URL('../../dist/', import.meta.url);
const tools = new URL('./node_modules/.bin/', import.meta.url);
/** @param {string} name */
const into = (name) => new URL(name, dist);
/** @param {string} name */
const tool = (name) => (existsSync(new URL(name, tools)) ? new URL(name, tools).pathname : null);

rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
for (const name of readdirSync(web)) {
  if (/\.(html|css|js)$/.test(name) && !name.includes('one-file')) cpSync(new URL(name, web), into(name));
}

const { core, zones } = splitZones(readFileSync(module), readFileSync(zoneData));
writeFileSync(into('explorer.wasm'), core);
writeFileSync(into('zones.bin'), zones);
const optimiser = tool('wasm-opt');
if (optimiser) {
  const features = ['bulk-memory', 'nontrapping-float-to-int', 'sign-ext', 'mutable-globals', 'multivalue', 'reference-types'];
  const file = into('explorer.wasm').pathname;
  execFileSync(optimiser, ['-Oz', ...features.map((feature) => `--enable-${feature}`), file, '-o', file]);
}

if (tool('esbuild')) {
  const { build } = await import('esbuild');
  const plugins = [{
    name: 'one-file',
    setup: (/** @type {import('esbuild').PluginBuild} */ build) =>
      build.onResolve({ filter: /\/parts\.js$/ }, () => ({ path: new URL('parts.one-file.js', web).pathname })),
  }];
  /** @param {string} name */
  const bundle = async (name) => {
    const entryPoints = [new URL(name, web).pathname];
    const built = await build({ entryPoints, plugins, bundle: true, minify: true, write: false, format: 'iife', target: 'es2022' });
    return built.outputFiles[0].text;
  };
  const [worker, app] = [await bundle('worker.js'), await bundle('app.js')];
  const style = readFileSync(new URL('style.css', web), 'utf8');
  /** @param {string} text */
  const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  /** @param {string} name */
  const packed = (name) => gzipSync(readFileSync(into(name)), { level: 9 }).toString('base64');
  const policy = `default-src 'none'; script-src ${hash(app)} 'wasm-unsafe-eval'; style-src ${hash(style)}; img-src data:; worker-src blob:; base-uri 'none'; form-action 'none'`;
  /** @param {string} id @param {string} text kept as text: no browser runs it */
  const part = (id, text) => `<script type="text/plain" id="${id}">${text.replaceAll('</', '<\\/')}</script>\n`;
  const page = readFileSync(new URL('index.html', web), 'utf8')
    .replace(/content="default-src[^"]*"/, () => `content="${policy}"`)
    .replace('<link rel="stylesheet" href="style.css">', () => `<style>${style}</style>`)
    .replace('<script type="module" src="app.js"></script>\n', '')
    .replace('</body>', () => `${part('worker', worker)}${part('core', packed('explorer.wasm'))}${part('zones', packed('zones.bin'))}<script>${app}</script>\n</body>`);
  writeFileSync(into('explorer.html'), page);
}
