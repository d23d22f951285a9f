// Packs the page, in two steps: node pack.js core MODULE ZONES, then node pack.js page SCRIPTS. See explorer/build.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { splitZones } from './zones.js';

const [step, ...files] = process.argv.slice(2);
const web = new URL('../', import.meta.url);
const dist = new URL('../../dist/', import.meta.url);
const tools = new URL('./node_modules/.bin/', import.meta.url);
/** @param {string} name */
const into = (name) => new URL(name, dist);
/** @param {string} name */
const tool = (name) => (existsSync(new URL(name, tools)) ? new URL(name, tools).pathname : null);

if (step === 'core') packCore(files[0], files[1]);
else await packPage(files[0]);

/** @param {string} module @param {string} zoneData */
function packCore(module, zoneData) {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(dist, { recursive: true });
  const { core, zones } = splitZones(readFileSync(module), readFileSync(zoneData));
  writeFileSync(into('explorer.wasm'), core);
  writeFileSync(into('zones.bin'), zones);
  const optimiser = tool('wasm-opt');
  if (!optimiser) return;
  const features = ['bulk-memory', 'nontrapping-float-to-int', 'sign-ext', 'mutable-globals', 'multivalue', 'reference-types'];
  const file = into('explorer.wasm').pathname;
  execFileSync(optimiser, ['-Oz', ...features.map((feature) => `--enable-${feature}`), file, '-o', file]);
}

/** @param {string} scripts */
async function packPage(scripts) {
  for (const name of readdirSync(web)) {
    if (/\.(html|css|js)$/.test(name) && !name.includes('one-file')) cpSync(new URL(name, web), into(name));
  }
  // It is loaded when somebody asks for it, so it has its time zones in it, and is not made smaller.
  cpSync(scripts, into('scripts.wasm'));
  if (tool('esbuild')) writeFileSync(into('explorer.html'), await oneFile());
}

async function oneFile() {
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
  const parts = part('worker', worker) + part('core', packed('explorer.wasm')) + part('zones', packed('zones.bin')) + part('scripts', packed('scripts.wasm'));
  return readFileSync(new URL('index.html', web), 'utf8')
    .replace(/content="default-src[^"]*"/, () => `content="${policy}"`)
    .replace('<link rel="stylesheet" href="style.css">', () => `<style>${style}</style>`)
    .replace('<script type="module" src="app.js"></script>\n', '')
    .replace('</body>', () => `${parts}<script>${app}</script>\n</body>`);
}
