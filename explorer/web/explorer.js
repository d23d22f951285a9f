// Asks the worker one question at a time: a newer question replaces the one that waits.

import { needsZones } from './core.js';

/**
 * @typedef {{what: string, done: number, all: number}} Progress
 * @typedef {{question: object, file: File | null, answered: (answer: any) => void}} Waiting
 */

/** After so long a newer question ends the older one, in milliseconds. */
const PATIENCE = 300;

export class Explorer {
  /** @type {Worker | null} */
  #worker = null;
  /** @type {Waiting | null} */
  #asked = null;
  /** @type {Waiting | null} */
  #next = null;
  #since = 0;
  #isReading = false;
  #hasZones = false;

  /**
   * @param {{coreModule: () => Promise<WebAssembly.Module>, zones: () => Promise<ArrayBuffer | undefined>, startWorker: () => Worker}} parts
   * @param {(progress: Progress | null) => void} progress hears null when nothing is asked any more
   */
  constructor(parts, progress) {
    this.parts = parts;
    this.module = parts.coreModule();
    this.progress = progress;
  }

  /** @param {object} question @param {File | null} file @param {(answer: any) => void} answered */
  ask(question, file, answered) {
    this.#next = { question, file, answered };
    if (!this.#asked) return void this.#ask();
    // What was read of a file is kept for the next question, so reading is not ended.
    const left = PATIENCE - (performance.now() - this.#since);
    const next = this.#next;
    setTimeout(() => {
      if (this.#next === next && this.#asked && !this.#isReading) {
        this.#end();
        void this.#ask();
      }
    }, Math.max(left, 0));
  }

  /** Ends what is asked, and forgets what waits. */
  cancel() {
    this.#next = null;
    this.#end();
    this.progress(null);
  }

  #end() {
    this.#worker?.terminate();
    this.#worker = null;
    this.#asked = null;
    this.#isReading = false;
    this.#hasZones = false;
  }

  async #ask() {
    const asked = (this.#asked = this.#next);
    this.#next = null;
    if (!asked) return;
    this.#since = performance.now();
    const question = JSON.stringify(asked.question);
    const module = await this.module;
    const zones = needsZones(question) && !this.#hasZones ? await this.parts.zones() : undefined;
    // Meanwhile it may have been cancelled.
    if (this.#asked !== asked) return;
    if (!this.#worker) {
      this.#worker = this.parts.startWorker();
      this.#worker.postMessage({ module });
      this.#worker.onmessage = ({ data }) => this.#hear(data);
      this.#worker.onerror = (event) => this.#hear({ failure: event.message || 'the worker cannot start' });
    }
    if (zones) this.#hasZones = true;
    this.#worker.postMessage({ question, zones, file: asked.file });
  }

  /** @param {{progress?: Progress, answer?: string, failure?: string}} data */
  #hear({ progress, answer, failure }) {
    if (progress) {
      this.#isReading = progress.what === 'reading';
      this.progress(progress);
      return;
    }
    const asked = this.#asked;
    this.#isReading = false;
    // A core that stopped cannot be asked again.
    if (failure !== undefined) this.#end();
    this.#asked = null;
    if (this.#next) void this.#ask();
    else this.progress(null);
    asked?.answered(failure === undefined ? JSON.parse(answer ?? '') : { error: { message: failure } });
  }
}
