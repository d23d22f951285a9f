// The parts of the page, out of the page itself, so that it opens from disk.

/** @param {string} id @returns {string} */
const text = (id) => document.getElementById(id)?.textContent ?? '';

/** @param {string} id @returns {Promise<ArrayBuffer>} */
function load(id) {
  const packed = Uint8Array.from(atob(text(id).trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}

export const startWorker = () => new Worker(URL.createObjectURL(new Blob([text('worker')], { type: 'text/javascript' })));

export const coreModule = async () => WebAssembly.compile(await load('core'));

export const scriptsModule = async () => WebAssembly.compile(await load('scripts'));

export const zones = () => load('zones');
