// The machine of each command: what a script of lockage does to a record, and what its reply means, without a server.

import { answer, answerText, compile, encode, write } from './module.js';

/**
 * @typedef {import('./module.js').Buffers & {
 *   run(nowUs: number): number,
 *   outcome(): number,
 *   arguments(): number,
 * }} Exports
 */

/** @typedef {string | Uint8Array} Bytes  a string stands for its bytes in UTF-8 */

/**
 * A call of a script, with the keys and arguments that a server would get. Of a time among these no notice is taken.
 * @typedef {{script: string, keys: string[], arguments: Bytes[]}} Call
 */

/** @typedef {Bytes | Bytes[] | null} Value  what a key holds: a string, a list, or nothing */

/** @typedef {{value: Uint8Array | Uint8Array[], forgetAtUs: number} | null} State  a value, and from when on it may be dropped */

/** @typedef {number | Bytes | (number | Bytes)[]} Reply  a list of numbers may end with a string */

/**
 * What came of a command, such as `{verdict: {is: 'allowed'}, ...}` or `{nowUs, answer: {is: 'held', ...}}`. It is
 * `{refused: error}` where the record is none that the command can work on.
 * @typedef {unknown} Outcome
 */

const [NOTHING, STRING, LIST] = [0, 1, 2];

/** The machines of all commands. They keep nothing from one call to the next. */
export class Machines {
  /** @type {Exports} */ #exports;

  /** @private @param {Exports} exports */
  constructor(exports) {
    this.#exports = exports;
  }

  /** @param {{module?: WebAssembly.Module | Promise<WebAssembly.Module>}} [options] @returns {Promise<Machines>} */
  static async create({ module } = {}) {
    const started = await WebAssembly.instantiate(await (module ?? compile(new URL('./machines.wasm', import.meta.url))));
    return new Machines(/** @type {Exports} */ (/** @type {unknown} */ (started.exports)));
  }

  /**
   * Runs a call on what its keys hold, at this time.
   * @param {Call} call @param {Value[]} values @param {number} nowUs microseconds since the epoch
   * @returns {{outcome: Outcome, states: State[]}} with what each key holds after it
   * @throws {RangeError} for a call that no command makes, and for a value that is no record
   */
  run(call, values, nowUs) {
    const output = this.#call([...framedCall(call), ...[0, 1].flatMap((at) => framedValue(values[at] ?? null))], () => this.#exports.run(nowUs));
    const outcome = JSON.parse(output.text());
    const states = [output.state(), output.state()];
    return { outcome, states: states.slice(0, call.keys.length) };
  }

  /** Returns the outcome that the reply of a script carries. @param {Call} call @param {Reply} reply @returns {Outcome} */
  outcome(call, reply) {
    return JSON.parse(this.#call([...framedCall(call), ...framedReply(reply)], () => this.#exports.outcome()).text());
  }

  /**
   * Returns a call's arguments, but for the time, as the core makes them: those of the fast script, if there is one,
   * and those of the slow one.
   * @param {Call} call @returns {{packed: Uint8Array[], text: Uint8Array[]}}
   */
  arguments(call) {
    const output = this.#call(framedCall(call), () => this.#exports.arguments());
    return { packed: output.all(), text: output.all() };
  }

  /** @param {Uint8Array[]} frames @param {() => number} run @returns {Output} */
  #call(frames, run) {
    const bytes = new Uint8Array(frames.reduce((length, frame) => length + frame.length, 0));
    frames.reduce((place, frame) => (bytes.set(frame, place), place + frame.length), 0);
    write(this.#exports, bytes);
    const length = run();
    if (length < 0) throw new RangeError(answerText(this.#exports, -length));
    return new Output(answer(this.#exports, length).slice());
  }
}

/** @param {number} value */
const number = (value) => new Uint8Array(new Uint32Array([value]).buffer);
/** @param {Bytes} bytes */
const inBytes = (bytes) => (typeof bytes === 'string' ? encode(bytes) : bytes);
/** @param {Bytes} one */
const framed = (one) => [number(inBytes(one).length), inBytes(one)];
/** @param {Bytes[]} all */
const framedAll = (all) => [number(all.length), ...all.flatMap(framed)];
/** @param {Call} call */
const framedCall = (call) => [...framed(call.script), ...framedAll(call.keys), ...framedAll(call.arguments)];

/** @param {Value} value */
function framedValue(value) {
  if (value === null) return [number(NOTHING), ...framedAll([])];
  return Array.isArray(value) ? [number(LIST), ...framedAll(value)] : [number(STRING), ...framedAll([value])];
}

/** @param {Reply} reply */
function framedReply(reply) {
  if (typeof reply === 'number') return [number(NOTHING), ...framedAll([String(reply)])];
  if (!Array.isArray(reply)) return [number(STRING), ...framedAll([reply])];
  // Of a list that ends with a string, an empty element says so.
  const elements = reply.map((one) => (typeof one === 'number' ? [String(one)] : ['', one]));
  return [number(LIST), ...framedAll(elements.flat())];
}

/** What is left to read of an answer. */
class Output {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer);
    this.place = 0;
  }

  number() {
    this.place += 4;
    return this.view.getUint32(this.place - 4, true);
  }

  next() {
    const length = this.number();
    this.place += length;
    return this.bytes.slice(this.place - length, this.place);
  }

  all() {
    return Array.from({ length: this.number() }, () => this.next());
  }

  text() {
    return new TextDecoder().decode(this.next());
  }

  /** @returns {State} */
  state() {
    const [kind, elements] = [this.number(), this.all()];
    if (kind === NOTHING) return null;
    const forgetAtUs = new DataView(this.next().buffer).getFloat64(0, true);
    return { value: kind === LIST ? elements : elements[0], forgetAtUs };
  }
}
