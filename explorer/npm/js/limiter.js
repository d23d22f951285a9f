// A rate limiter in this process: the machines of lockage, and its in-process store, in WebAssembly.

import { answerText, compile, encode, write } from './module.js';

/**
 * @typedef {import('./module.js').Buffers & {
 *   create(): number,
 *   decide(cost: number, nowUs: number, charges: boolean): number,
 *   adjust(what: number, amount: number, nowUs: number): number,
 *   reset(nowUs: number): number,
 *   purge(nowUs: number): number,
 *   size(): number,
 * }} Exports
 */

/**
 * The decision on one request. Times are whole milliseconds, rounded up, so that a wait of that length is not too short.
 * @typedef {object} Decision
 * @property {boolean} admitted whether the request may go ahead; only then anything was charged
 * @property {number} limit the capacity: a bucket's burst, or a window's limit
 * @property {number} remaining the largest cost that is admitted right after this decision
 * @property {number | null} retryAfterMs when the same request is admitted, without other traffic: 0 if it is admitted
 *   now, and null if it never is, since it costs more than the limit
 * @property {number} resetAfterMs how long until the key is as if never used, without further requests
 * @property {number} turnAfterMs of a leaky bucket, how long an admitted request has to wait for its turn; else 0
 * @property {boolean} blocked whether a block denies it
 * @property {number | null} binding of several limits, the index of the one that binds
 */

/**
 * What an adjustment came to.
 * @typedef {object} Adjusted
 * @property {number} amount how much was taken, given back or charged; of a block, for how many milliseconds the key is
 *   blocked; of an unblocking, 1 where it was blocked
 * @property {Decision} after what a peek of cost 1 is told right after it
 */

/**
 * @typedef {object} Options
 * @property {() => number} [clock] returns the time in milliseconds since the epoch, where fractions count down to a
 *   microsecond; by default that of `performance`, which is not set back
 * @property {WebAssembly.Module | Promise<WebAssembly.Module>} [module] `lockage.wasm`, compiled, where it can neither
 *   be fetched nor read beside this file
 */

/** A text that is no limit. */
export class LimitError extends Error {
  /** @param {string} message @param {number} column */
  constructor(message, column) {
    super(message);
    this.name = 'LimitError';
    /** Where the problem is, in characters from 1. @readonly */
    this.column = column;
  }
}

const [TAKE_UP_TO, REFUND, PENALTY, BLOCK, UNBLOCK] = [0, 1, 2, 3, 4];
const [ADMITTED, BLOCKED, NEVER] = [1, 2, 3];

const WALL_CLOCK = () => performance.timeOrigin + performance.now();

/** One limit for any number of keys. Keys that no longer count are dropped, a few at a time. */
export class Limiter {
  /** @type {Exports} */ #exports;
  /** @type {() => number} */ #clock;
  /** @type {string} */ #limit;

  /** @private @param {Exports} exports @param {() => number} clock @param {string} limit */
  constructor(exports, clock, limit) {
    this.#exports = exports;
    this.#clock = clock;
    this.#limit = limit;
  }

  /**
   * Creates a limiter of a limit such as `token-bucket 100/s burst 20`.
   * @param {string} limit @param {Options} [options] @returns {Promise<Limiter>}
   * @throws {LimitError} where the text is no limit
   */
  static async create(limit, { clock = WALL_CLOCK, module } = {}) {
    const started = await WebAssembly.instantiate(await (module ?? compile(new URL('./lockage.wasm', import.meta.url))));
    const exports = /** @type {Exports} */ (/** @type {unknown} */ (started.exports));
    write(exports, encode(limit));
    const length = exports.create();
    const [first] = numbers(exports);
    if (length > 0) throw new LimitError(answerText(exports, length), first);
    return new Limiter(exports, clock, answerText(exports, first));
  }

  /** The limit, in its canonical text. */
  get limit() {
    return this.#limit;
  }

  /** How many keys are kept, with some that no longer count and are not dropped yet. */
  get size() {
    return this.#exports.size();
  }

  /** Admits a request of `cost` for `key` and charges it, or changes nothing. @param {string} key @param {number} [cost] */
  tryAcquire(key, cost = 1) {
    return this.#decide(key, cost, true);
  }

  /**
   * Returns what {@link Limiter.tryAcquire} would, and charges nothing. A cost of 0 asks for `remaining` and
   * `resetAfterMs` alone.
   * @param {string} key @param {number} [cost]
   */
  peek(key, cost = 1) {
    return this.#decide(key, cost, false);
  }

  /** Takes as much as there is, up to `most`. @param {string} key @param {number} most */
  takeUpTo(key, most) {
    return this.#adjust(key, TAKE_UP_TO, most);
  }

  /** Gives back up to `cost` of what is charged now. @param {string} key @param {number} cost */
  refund(key, cost) {
    return this.#adjust(key, REFUND, cost);
  }

  /** Charges `cost` whether it fits or not, up to twice the capacity in all. @param {string} key @param {number} cost */
  penalty(key, cost) {
    return this.#adjust(key, PENALTY, cost);
  }

  /**
   * Admits nothing for so long, whatever the limit says.
   * @param {string} key @param {number} ms @returns {Adjusted}
   */
  block(key, ms) {
    const adjusted = this.#adjust(key, BLOCK, Math.ceil(ms * 1000));
    return { ...adjusted, amount: Math.ceil(adjusted.amount / 1000) };
  }

  /** Ends a block. @param {string} key */
  unblock(key) {
    return this.#adjust(key, UNBLOCK, 0);
  }

  /** Forgets a key, and returns whether anything was stored. @param {string} key @returns {boolean} */
  reset(key) {
    this.#write(key);
    this.#check(this.#exports.reset(this.#nowUs()));
    return numbers(this.#exports)[0] === 1;
  }

  /** Drops every key that no longer counts, and returns how many are left. */
  purge() {
    return this.#exports.purge(this.#nowUs());
  }

  /** @param {string} key @param {number} cost @param {boolean} charges @returns {Decision} */
  #decide(key, cost, charges) {
    this.#write(key);
    this.#check(this.#exports.decide(whole(cost), this.#nowUs(), charges));
    return decision(numbers(this.#exports));
  }

  /** @param {string} key @param {number} what @param {number} amount @returns {Adjusted} */
  #adjust(key, what, amount) {
    this.#write(key);
    this.#check(this.#exports.adjust(what, whole(amount), this.#nowUs()));
    const told = numbers(this.#exports);
    return { amount: told[7], after: decision(told) };
  }

  /** @param {string} key */
  #write(key) {
    if (typeof key !== 'string') throw new TypeError('a key is a string');
    write(this.#exports, encode(key));
  }

  /** @param {number} length of a message, if something is wrong */
  #check(length) {
    if (length > 0) throw new RangeError(answerText(this.#exports, length));
  }

  #nowUs() {
    const now = Math.floor(this.#clock() * 1000);
    if (!(now >= 0)) throw new RangeError('a clock returns milliseconds since the epoch');
    return now;
  }
}

/** @param {Exports} exports */
const numbers = (exports) => new Float64Array(exports.memory.buffer, exports.numbers(), 8);

/** @param {Float64Array} told @returns {Decision} */
function decision([verdict, limit, remaining, retryAfter, resetAfter, turnAfter, binding]) {
  const ms = (/** @type {number} */ micros) => Math.ceil(micros / 1000);
  return {
    admitted: verdict === ADMITTED,
    limit,
    remaining,
    retryAfterMs: verdict === NEVER ? null : ms(retryAfter),
    resetAfterMs: ms(resetAfter),
    turnAfterMs: ms(turnAfter),
    blocked: verdict === BLOCKED,
    binding: binding < 0 ? null : binding,
  };
}

/** @param {number} number */
function whole(number) {
  if (!Number.isSafeInteger(number) || number < 0) throw new RangeError(`${number}: a cost is a whole number, at least 1`);
  return number;
}
