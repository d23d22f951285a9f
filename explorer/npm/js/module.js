// A module of WebAssembly: how it is found and started, and how bytes go in and out of it.

/**
 * @typedef {{
 *   memory: WebAssembly.Memory,
 *   input(length: number): number,
 *   output(): number,
 *   numbers(): number,
 * }} Buffers  what each module has to pass bytes and numbers
 */

/** @type {Map<string, Promise<WebAssembly.Module>>} */
const compiled = new Map();

/**
 * Compiles a file of this package, once: fetched, or read from disk under Node.
 * @param {URL} url @returns {Promise<WebAssembly.Module>}
 */
export function compile(url) {
  let module = compiled.get(url.href);
  if (!module) {
    module = read(url).then((bytes) => WebAssembly.compile(bytes));
    // What could not be loaded is tried again.
    module.catch(() => compiled.delete(url.href));
    compiled.set(url.href, module);
  }
  return module;
}

/** @param {URL} url @returns {Promise<ArrayBuffer | Uint8Array<ArrayBuffer>>} */
async function read(url) {
  if (url.protocol === 'file:') {
    // No bundler looks for what is asked for so.
    const { process } = /** @type {any} */ (globalThis);
    const { readFile } = process.getBuiltinModule('node:fs/promises');
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];

/** @param {string} text */
export const encode = (text) => encoder.encode(text);

/** @param {Buffers} exports @param {Uint8Array} bytes */
export function write({ memory, input }, bytes) {
  const address = input(bytes.length);
  new Uint8Array(memory.buffer, address, bytes.length).set(bytes);
}

/** Returns a view of the last answer, which is good until the next call. @param {Buffers} exports @param {number} length */
export const answer = ({ memory, output }, length) => new Uint8Array(memory.buffer, output(), length);

/** @param {Buffers} exports @param {number} length */
export const answerText = (exports, length) => decoder.decode(answer(exports, length));
