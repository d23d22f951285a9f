// Runs the core beside the page, so that the page answers while it decides. What is in a file stays here.

import { core } from './core.js';

/** @type {ReturnType<typeof core>} */
let started;
/** @type {File | null} */
let file = null;
let place = 0;
// @ts-ignore: the types of pages and of workers cannot be had together.
const slices = new FileReaderSync();

const outside = {
  open() { place = 0; },
  /** @param {number} _file @param {number} most */
  read(_file, most) {
    if (!file) return null;
    try {
      const bytes = new Uint8Array(slices.readAsArrayBuffer(file.slice(place, place + most)));
      place += bytes.length;
      postMessage({ progress: { what: 'reading', done: place, all: file.size } });
      return bytes;
    } catch {
      return null;
    }
  },
  /** @param {number} done @param {number} all */
  progress(done, all) { postMessage({ progress: { what: 'deciding', done, all } }); },
};

/** @param {MessageEvent<{module?: WebAssembly.Module, zones?: ArrayBuffer, question?: string, file?: File | null}>} event */
onmessage = async ({ data }) => {
  if (data.module) started = core(data.module, outside);
  if (data.question === undefined) return;
  if (data.file) file = data.file;
  try {
    const core = await started;
    if (data.zones) core.loadZones(data.zones);
    postMessage({ answer: core.ask(data.question) });
  } catch (error) {
    // Of memory there may be too little for a large file.
    postMessage({ failure: `the explorer stopped: ${error}` });
  }
};
