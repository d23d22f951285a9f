// The parts of the page that are files of their own. In the one-file build another module stands here.

export const startWorker = () => new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });

/** @param {string} name @returns {Promise<ArrayBuffer>} */
const load = async (name) => (await fetch(new URL(name, import.meta.url))).arrayBuffer();

export const coreModule = async () => WebAssembly.compile(await load('./explorer.wasm'));

/** The core with a Lua in it, and the shipped scripts. */
export const scriptsModule = async () => WebAssembly.compile(await load('./scripts.wasm'));

export const zones = () => load('./zones.bin');
