// The core of the explorer in WebAssembly: one question in, one answer out, both JSON.

/**
 * @typedef {{alloc(length: number): number, free(address: number, length: number): void,
 *   ask(address: number, length: number): bigint, memory: WebAssembly.Memory}} Exports
 * @typedef {{
 *   open(file: number): void,
 *   read(file: number, most: number): Uint8Array | null,
 *   progress(done: number, all: number): void,
 * }} Outside  `read` gives the next bytes of a file, none at its end, null if it cannot be read
 */

/**
 * @param {WebAssembly.Module} module @param {Outside} outside
 * @returns {Promise<{ask: (question: string) => string, loadZones: (zones: ArrayBuffer) => void}>}
 */
export async function core(module, outside) {
  const page = {
    open: outside.open,
    progress: outside.progress,
    /** @param {number} file @param {number} into @param {number} room */
    read(file, into, room) {
      const bytes = outside.read(file, room);
      if (!bytes) return -1;
      new Uint8Array(exports.memory.buffer, into >>> 0, room).set(bytes);
      return bytes.length;
    },
  };
  const instance = await WebAssembly.instantiate(module, { page });
  const exports = /** @type {Exports} */ (/** @type {unknown} */ (instance.exports));
  return {
    ask(question) {
      const bytes = new TextEncoder().encode(question);
      const address = exports.alloc(bytes.length) >>> 0;
      new Uint8Array(exports.memory.buffer, address, bytes.length).set(bytes);
      const answer = BigInt.asUintN(64, exports.ask(address, bytes.length));
      const [at, length] = [Number(answer >> 32n), Number(answer & 0xffff_ffffn)];
      const text = new TextDecoder().decode(new Uint8Array(exports.memory.buffer, at, length));
      exports.free(at, length);
      return text;
    },
    // The module was built with them: they go where they were.
    loadZones: (zones) => new Uint8Array(exports.memory.buffer).set(new Uint8Array(zones, 4), new DataView(zones).getUint32(0, true)),
  };
}

/** Whether an answer may need time zones: a text may have a letter of `calendar` as an escape. @param {string} question */
export const needsZones = (question) => /calendar|\\[uUx]/i.test(question);
