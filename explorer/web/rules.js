// A file of rules: its limits are tried, and those that were changed are written into it.

import { h } from './dom.js';
import { state as stateOf } from './state.js';
import { counted } from './words.js';

/**
 * @typedef {import('./state.js').State} State
 * @typedef {{name: string, text: string}} RulesFile
 * @typedef {{name: string, rules: string[], limit: string}} Given  a limit, and the name by which the page knows it
 * @typedef {{given: Given[], mistakes: string[], text: string | null, error?: {message: string}}} Answer  without a text, the
 * file that was read has mistakes
 */

/** The most limits that are tried when a file is opened. */
const FIRST = 4;

/** @param {File} file @returns {Promise<RulesFile | null>} null if it is no text */
export async function read(file) {
  const bytes = await file.arrayBuffer();
  try {
    return { name: file.name, text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    return null;
  }
}

/** @param {RulesFile} file @param {State} [state] whose limits are written into it @returns {object} the question */
export function question({ name, text }, state = stateOf({ limits: [] })) {
  const limits = state.limits.map((limit, i) => [(state.names[i] ?? '').trim(), limit]);
  return { verb: 'rules', rules: { name, text, limits } };
}

/** @param {State} state @param {Given[]} given @returns {State} the state that tries the limits of a file */
export function opened(state, given) {
  const tried = given.slice(0, FIRST);
  return {
    ...state,
    view: state.view === 'advise' ? 'replay' : state.view,
    ...(tried.length && { limits: tried.map(({ limit }) => limit), names: tried.map(({ name }) => name) }),
    kind: 'rules', toml: null, preset: '',
  };
}

/** @param {State} state @param {Given} given @returns {State} the state with this limit, or without it */
export function toggled(state, { name, limit }) {
  const rows = state.limits.map((limit, i) => ({ limit, name: state.names[i] ?? '' }));
  const others = rows.filter((row) => row.name !== name);
  const kept = others.length < rows.length ? others : [...rows.filter((row) => row.limit !== ''), { name, limit }];
  return { ...state, limits: kept.length ? kept.map(({ limit }) => limit) : [''], names: kept.map(({ name }) => name), preset: '' };
}

/** @param {RulesFile} file @param {Given[]} given @returns {HTMLElement[]} its limits, to choose from */
export function choices(file, given) {
  if (!given.length) return [h('legend', {}, `No rule of ${file.name} has a limit to try.`)];
  return [h('legend', {}, `${file.name} has ${counted(given.length, 'limit')} to try`),
    ...given.map(({ name, rules, limit }, i) => h('label', { class: 'check' },
      h('input', { type: 'checkbox', 'data-given': i }), ` ${[name, ...rules.slice(1)].join(', ')} `, h('code', {}, limit)))];
}

/** Checks the limits that are tried. A file may have thousands, so they are not made anew. @param {Given[]} given @param {State} state */
export function check(given, { names }) {
  document.querySelectorAll('[data-given]').forEach((box, i) => { /** @type {HTMLInputElement} */ (box).checked = names.includes(given[i].name); });
}

/** @param {Answer} answer @returns {string[]} */
export const mistakesOf = ({ error, mistakes }) => (error ? [error.message] : mistakes);

/** @param {string[]} mistakes @returns {HTMLElement[]} */
export const listed = (mistakes) => mistakes.map((mistake) => h('li', {}, mistake));
