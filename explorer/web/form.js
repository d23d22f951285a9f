// The form: it shows a state, reads it, and marks the field that is wrong.

import { byId, h } from './dom.js';
import { TRAFFIC, log as logOf, nameOf, state as stateOf, traffic } from './state.js';

/** @typedef {import('./state.js').State} State */

const LABELS = /** @type {Record<string, [string, string]>} */ ({
  name: ['Name of the keys', 'key'],
  shape: ['Shape', 'poisson 5/s'],
  keys: ['Keys', '1, or 1000 zipf 1.1'],
  cost: ['Cost', '1, 1-10, or 1:90% 10:10%'],
  duration: ['Duration', '10min'],
  start: ['Start', '2026-01-01T00:00:00Z'],
  after: ['After', '0s'],
});

/** @param {string} id @param {string} label @param {string} value @param {string} example @param {string} [list] */
function field(id, label, value, example, list) {
  return h('div', { class: 'field' },
    h('label', { for: id }, label),
    h('input', { id, value, placeholder: example, list, autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off' }));
}

/** @param {State} state @param {number} i */
const labelOf = ({ limits, names }, i) => [limits.length > 1 ? `Limit ${i + 1}` : 'Limit', names[i]].filter(Boolean).join(', ');

/** @param {State} state */
export function show(state) {
  const isLog = state.log !== null;
  const isToml = state.toml !== null && !isLog;
  byId('limits').replaceChildren(...state.limits.map((limit, i) => h('div', { class: 'row' },
    field(`limits[${i}]`, labelOf(state, i), limit, 'token-bucket 100/min burst 20', 'kinds'),
    state.limits.length > 1 && h('button', { type: 'button', class: 'small', 'data-drop-limit': i, 'aria-label': `Remove limit ${i + 1}` }, '×'))));
  byId('shapes').replaceChildren(...state.traffic.map((one, i) => h('fieldset', {},
    h('legend', {}, state.traffic.length > 1 ? `Traffic ${i + 1}` : 'Traffic'),
    ...TRAFFIC.filter((name) => state.traffic.length > 1 || !['name', 'after'].includes(name)).map((name) =>
      field(`traffic[${i}].${name}`, LABELS[name][0], one[name], LABELS[name][1], name === 'shape' ? 'shapes-known' : undefined)),
    state.traffic.length > 1 && h('button', { type: 'button', class: 'small', 'data-drop-traffic': i }, `Remove traffic ${i + 1}`))));
  set('seed', state.seed);
  check('waits', state.callers !== null);
  byId('callers').hidden = state.callers === null;
  set('callers.wait', state.callers?.wait ?? '10s');
  set('callers.round-trip', state.callers?.['round-trip'] ?? '');
  set('callers.processes', state.callers?.processes ?? '');
  check('jitter', state.callers?.jitter ?? true);
  check('has-clocks', state.clocks !== null);
  byId('clocks').hidden = state.clocks === null;
  set('clocks.nodes', state.clocks?.nodes ?? '8');
  set('clocks.skew', state.clocks?.skew ?? '');
  set('clocks.drift-ppm', state.clocks?.['drift-ppm'] ?? '');
  check(isLog ? 'from-log' : isToml ? 'from-toml' : 'from-form', true);
  byId('form-part').hidden = isLog || isToml;
  byId('callers-part').hidden = isToml;
  byId('limits-part').hidden = isToml && state.view !== 'worst';
  byId('toml-part').hidden = !isToml;
  byId('log-part').hidden = !isLog;
  if (isToml) set('toml', state.toml ?? '');
  set('format', state.log?.format || 'auto');
  set('by', state.log?.by || 'address');
  set('key', state.log?.key ?? '');
  set('trust', state.log?.trust ?? '');
  set('ipv6_prefix', state.log?.ipv6_prefix ?? '');
  byId('advise-part').hidden = state.view !== 'advise';
  set('deny_clients', state.deny);
  set('windows', state.windows);
  check(state.kind === 'limits' ? 'as-limits' : 'as-rules', true);
  set('counted', state.counted);
  check('trial', state.trial);
  byId('names').replaceChildren(...state.limits.map((limit, i) => h('div', { class: 'field' },
    h('label', { for: `name-${i}` }, 'Name of ', h('code', {}, limit || 'the limit')),
    h('input', { id: `name-${i}`, value: state.names[i] ?? '', placeholder: nameOf({ ...state, names: [] }, i), autocomplete: 'off', spellcheck: 'false' }))));
}

/** @param {State} state the state before @returns {State} what the form says now */
export function read(state) {
  const source = /** @type {HTMLInputElement | null} */ (document.querySelector('input[name=source]:checked'))?.value;
  const keptLog = state.log ?? logOf();
  /** @param {string} value @param {string} usual */
  const unusual = (value, usual) => (value === usual ? '' : value);
  return stateOf({
    ...state,
    limits: state.limits.map((_, i) => get(`limits[${i}]`)),
    traffic: state.traffic.map((one, i) => traffic('', Object.fromEntries(TRAFFIC.map((name) =>
      [name, document.getElementById(`traffic[${i}].${name}`) ? get(`traffic[${i}].${name}`) : one[name]])))),
    seed: get('seed'),
    callers: checked('waits')
      ? { wait: get('callers.wait'), 'round-trip': get('callers.round-trip'), processes: get('callers.processes'), jitter: checked('jitter') } : null,
    clocks: checked('has-clocks')
      ? { nodes: get('clocks.nodes'), skew: get('clocks.skew'), 'drift-ppm': get('clocks.drift-ppm') } : null,
    toml: source === 'toml' ? (state.toml === null ? null : get('toml')) : null,
    log: source === 'log'
      ? logOf(keptLog.name, {
        format: unusual(get('format'), 'auto'), by: unusual(get('by'), 'address'), key: get('key'), trust: get('trust'), ipv6_prefix: get('ipv6_prefix'),
      }) : null,
    deny: get('deny_clients'),
    windows: get('windows'),
    names: state.limits.map((_, i) => get(`name-${i}`)),
    kind: checked('as-limits') ? 'limits' : 'rules',
    counted: get('counted'),
    trial: checked('trial'),
  });
}

/** @typedef {import('./state.js').Wrong} Wrong */

/** @param {Wrong | null} wrong @param {string} id of its field @returns {string} both in words; empty if it is of no field */
export function mark(wrong, id) {
  for (const input of document.querySelectorAll('[aria-invalid]')) {
    input.removeAttribute('aria-invalid');
    input.removeAttribute('aria-describedby');
  }
  for (const text of document.querySelectorAll('.wrong')) text.remove();
  const input = id && document.getElementById(id);
  if (!wrong || !input) return '';
  const at = wrong.span && id === 'toml' ? lineOf(get('toml'), wrong.span.start) : null;
  const message = at ? `Line ${at}: ${wrong.message}` : wrong.message;
  input.setAttribute('aria-invalid', 'true');
  input.setAttribute('aria-describedby', 'wrong');
  input.after(h('p', { class: 'wrong', id: 'wrong' }, message));
  const label = document.querySelector(`label[for="${CSS.escape(id)}"]`)?.textContent ?? '';
  return `${label}: ${message}`;
}

/** @param {string} text @param {number} bytes @returns {number} from 1 */
function lineOf(text, bytes) {
  const before = new TextDecoder().decode(new TextEncoder().encode(text).slice(0, bytes));
  return before.split('\n').length;
}

/** @param {string} id @param {string} value the field of an input keeps its cursor */
function set(id, value) {
  const input = byId(id);
  if (/** @type {HTMLInputElement} */ (input).value !== value) /** @type {HTMLInputElement} */ (input).value = value;
}

/** @param {string} id */
const get = (id) => /** @type {HTMLInputElement} */ (byId(id))?.value ?? '';
/** @param {string} id */
const checked = (id) => /** @type {HTMLInputElement} */ (byId(id)).checked;
/** @param {string} id @param {boolean} is */
const check = (id, is) => { /** @type {HTMLInputElement} */ (byId(id)).checked = is; };
