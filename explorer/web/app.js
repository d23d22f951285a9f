// The page: it keeps a state, shows it, and asks about it while it is typed.

import { byId, h } from './dom.js';
import { Explorer } from './explorer.js';
import { mark, read, show } from './form.js';
import * as parts from './parts.js';
import { PRESETS } from './presets.js';
import * as results from './results.js';
import * as ruled from './rules.js';
import { VIEWS, fromForm, fromHash, keyOf, limitsFile, log as logOf, question, rulesFile, state as stateOf, toHash, toToml, traffic, wrongField } from './state.js';
import { counted, percent } from './words.js';

/** @typedef {import('./state.js').State} State */

/** So long after the last letter it is asked, in milliseconds. */
const PAUSE = 60;

let state = fromHash(location.hash) ?? PRESETS[0].state;
/** @type {File | null} */
let file = null;
let fileNumber = 0;
/** The open file of rules. @type {ruled.RulesFile | null} */
let rules = null;
/** Its limits. @type {ruled.Given[]} */
let given = [];
/** A newer question would replace that about the file. */
let isOpening = false;
/** The last answer, to draw it anew in another width. @type {any} */
let answer = null;
let asking = 0;

/** @param {import('./explorer.js').Progress | null} progress */
function tell(progress) {
  byId('progress').hidden = !progress;
  if (!progress) return;
  byId('doing').textContent = `${progress.what === 'reading' ? `Reading ${file?.name}` : 'Deciding'}, ${percent(progress.done, progress.all)}`;
  byId('bar').setAttribute('value', String(progress.done / progress.all));
}

const explorer = new Explorer(parts, tell);
/** Runs the shipped scripts; loaded when they are asked for. @type {Explorer | null} */
let scripts = null;
/** Reads and writes rules, beside the other questions. */
const reader = new Explorer({ ...parts, coreModule: () => explorer.module }, () => {});

/** @param {State} next @param {{isTyped?: boolean, isOld?: boolean}} [how] */
function go(next, { isTyped = false, isOld = false } = {}) {
  state = next;
  if (!isTyped) show(state);
  frame();
  const url = `#${toHash(state)}`;
  if (!isOld) history[isTyped ? 'replaceState' : 'pushState'](null, '', url);
  clearTimeout(asking);
  asking = window.setTimeout(ask, isTyped ? PAUSE : 0);
}

/** Shows all that is not a field: it changes while somebody types. */
function frame() {
  for (const view of VIEWS) {
    const tab = byId(`view-${view}`);
    tab.setAttribute('aria-selected', String(view === state.view));
    tab.tabIndex = view === state.view ? 0 : -1;
  }
  byId('shown').setAttribute('aria-labelledby', `view-${state.view}`);
  const preset = PRESETS.find(({ id }) => id === state.preset);
  for (const button of document.querySelectorAll('#presets button')) {
    button.setAttribute('aria-pressed', String(button.id === `preset-${preset?.id}`));
  }
  byId('preset').hidden = !preset;
  byId('question').textContent = preset?.question ?? '';
  const text = byId('answer').querySelector('p');
  if (text && text.textContent !== preset?.answer) {
    text.textContent = preset?.answer ?? '';
    byId('answer').removeAttribute('open');
  }
  link('save-scenario', state.toml ?? toToml({ ...state, log: null }).text);
  write();
  byId('file-name').textContent = file ? `${file.name}, ${counted(file.size, 'byte')}` : '';
  byId('link').setAttribute('href', `#${toHash(state)}`);
}

/** Writes the file that a program reads. Rules are checked by the core, once somebody looks at them. */
function write() {
  const isRules = state.kind === 'rules';
  byId('rule-part').hidden = byId('rules-note').hidden = !isRules || rules !== null;
  byId('open-note').hidden = !isRules || rules === null;
  byId('limits-note').hidden = isRules;
  byId('counted').setAttribute('placeholder', keyOf({ ...state, counted: '' }));
  byId('given').hidden = byId('close-rules').hidden = !rules;
  if (rules) ruled.check(given, state);
  if (!isRules) return written('limits.toml', limitsFile(state), []);
  const asked = state;
  const file = rules ?? { name: 'rules.toml', text: rulesFile(state) };
  if (!rules) written(file.name, file.text, []);
  if (isOpening || !rules && !byId('deploy').hasAttribute('open')) return;
  reader.ask(ruled.question(file, rules ? state : undefined), null, (/** @type {ruled.Answer} */ answer) => {
    if (asked === state) written(file.name, answer.text ?? file.text, ruled.mistakesOf(answer));
  });
}

/** @param {string} name @param {string} text @param {string[]} mistakes a file with one cannot be saved */
function written(name, text, mistakes) {
  byId('written').textContent = text;
  byId('mistakes').replaceChildren(...ruled.listed(mistakes));
  byId('copy-file').hidden = byId('save-file').hidden = mistakes.length > 0;
  byId('save-file').textContent = `Save ${name}`;
  byId('save-file').setAttribute('download', name);
  link('save-file', text);
}

/** @param {File} chosen */
async function openRules(chosen) {
  byId('rules-part').setAttribute('open', '');
  const read = await ruled.read(chosen);
  if (!read) return refused([`${chosen.name}: not UTF-8: expected text`]);
  isOpening = true;
  reader.ask(ruled.question(read), null, (/** @type {ruled.Answer} */ answer) => {
    isOpening = false;
    if (answer.error || answer.text === null) return refused(ruled.mistakesOf(answer));
    byId('rules-mistakes').replaceChildren();
    ({ given } = answer);
    rules = read;
    byId('given').replaceChildren(...ruled.choices(rules, given));
    go(ruled.opened(state, given));
  });
}

/** Shows the mistakes of a file of rules, which is not open. @param {string[]} mistakes */
function refused(mistakes) {
  [rules, given] = [null, []];
  byId('rules-mistakes').replaceChildren(...ruled.listed(mistakes));
  write();
}

/** @param {string} id @param {string} text to be saved as a file */
function link(id, text) {
  const anchor = /** @type {HTMLAnchorElement} */ (byId(id));
  if (anchor.href.startsWith('blob:')) URL.revokeObjectURL(anchor.href);
  anchor.href = URL.createObjectURL(new Blob([text], { type: 'text/plain' }));
}

function ask() {
  const asked = state;
  const put = question(asked, file ? fileNumber : null);
  if (!put) {
    mark(null, '');
    answer = null;
    byId('shown').replaceChildren(h('p', { class: 'headline' },
      asked.log?.name ? `Drop ${asked.log.name} here again to see this: a link does not carry a file.` : 'Drop an access log here, or choose one.'));
    return;
  }
  explorer.ask(put, asked.log ? file : null, (answered) => {
    if (answered.error) return wrong(asked, answered.error);
    mark(null, '');
    byId('failure').textContent = '';
    answer = { of: asked, answered };
    draw(true);
  });
}

/** Runs the shipped scripts on the requests that are shown. @param {HTMLElement} into */
function verify(into) {
  const { of } = answer;
  // The module has its time zones in it.
  scripts ??= new Explorer({ ...parts, coreModule: parts.scriptsModule, zones: async () => undefined }, tell);
  into.replaceChildren(h('p', {}, 'The scripts run ...'));
  scripts.ask({ .../** @type {object} */ (question(of, file ? fileNumber : null)), verb: 'verify' }, of.log ? file : null, (answered) => {
    const shown = results.verified(answered);
    into.replaceChildren(...shown.parts.filter((part) => part instanceof HTMLElement));
    byId('said').textContent = shown.said;
  });
}

/** @param {State} asked @param {import('./state.js').Wrong} error */
function wrong(asked, error) {
  const told = mark(error, wrongField(asked, error));
  byId('failure').textContent = told ? '' : error.message;
  byId('said').textContent = told;
  byId('shown').classList.add('old');
}

/** @param {boolean} isNew whether it is said too */
function draw(isNew) {
  if (!answer) return;
  const { of, answered } = answer;
  const width = Math.max(260, Math.min(byId('shown').clientWidth - 34, 760));
  const shown = of.view === 'advise'
    ? results.advise(answered, width, (limit) => go({ ...state, view: 'replay', limits: [limit, ...state.limits.slice(1)], toml: null }))
    : of.view === 'replay' ? results.replay(answered, width, verify)
    : results[/** @type {'change' | 'worst'} */ (of.view)](answered, width);
  byId('shown').classList.remove('old');
  byId('shown').replaceChildren(...shown.parts.filter((part) => part instanceof HTMLElement));
  if (isNew) byId('said').textContent = shown.said;
}

/** Turns the form into TOML, or back. @param {'form' | 'toml' | 'log'} source */
function turn(source) {
  if (source === 'log') return go({ ...state, toml: null, log: logOf(file?.name), preset: '' });
  if (source === 'toml') return go({ ...state, toml: toToml({ ...state, log: null }).text, log: null });
  if (state.toml === null) return go({ ...state, log: null });
  const before = state;
  explorer.ask({ verb: 'form', toml: state.toml }, null, (form) => {
    // A text with an error in it stays a text.
    if (!form.error) return go(fromForm({ ...before, log: null }, form));
    show(before);
    wrong(before, form.error);
  });
}

/** @param {File} dropped */
function take(dropped) {
  file = dropped;
  fileNumber += 1;
  go({ ...state, view: state.view === 'worst' ? 'replay' : state.view, toml: null, preset: '', log: { ...logOf(), ...state.log, name: dropped.name } });
}

byId('presets').replaceChildren(...PRESETS.map((preset) =>
  h('button', { type: 'button', id: `preset-${preset.id}`, 'aria-pressed': 'false', click: () => go(preset.state) }, preset.name)));

const form = byId('form');
form.addEventListener('submit', (event) => event.preventDefault());
form.addEventListener('input', (event) => {
  const target = /** @type {HTMLInputElement} */ (event.target);
  if (target.type === 'file' || target.name === 'source' || target.dataset.given !== undefined) return;
  go(read(state), { isTyped: target.type !== 'checkbox' && target.tagName !== 'SELECT' });
});
form.addEventListener('change', (event) => {
  const target = /** @type {HTMLInputElement} */ (event.target);
  if (target.name === 'source') turn(/** @type {'form' | 'toml' | 'log'} */ (target.value));
  const chosen = target.files?.[0];
  if (chosen && target.id === 'file') take(chosen);
  if (chosen && target.id === 'rules') {
    void openRules(chosen);
    // So the same file can be chosen again, once it is mended.
    target.value = '';
  }
  if (target.dataset.given !== undefined) go(ruled.toggled(state, given[Number(target.dataset.given)]));
});
form.addEventListener('click', (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  const { dropLimit, dropTraffic } = target.dataset;
  if (dropLimit !== undefined) {
    go({ ...state, limits: state.limits.filter((_, i) => i !== Number(dropLimit)), names: state.names.filter((_, i) => i !== Number(dropLimit)) });
    byId('limits[0]').focus();
  }
  if (dropTraffic !== undefined) {
    go({ ...state, traffic: state.traffic.filter((_, i) => i !== Number(dropTraffic)) });
    byId('traffic[0].shape').focus();
  }
});
byId('add-limit').addEventListener('click', () => {
  go({ ...state, limits: [...state.limits, 'token-bucket 100/min burst 20'] });
  byId(`limits[${state.limits.length - 1}]`).focus();
});
byId('add-traffic').addEventListener('click', () => {
  go({ ...state, traffic: [...state.traffic, traffic('poisson 5/s')] });
  byId(`traffic[${state.traffic.length - 1}].shape`).focus();
});
byId('cancel').addEventListener('click', () => {
  explorer.cancel();
  scripts?.cancel();
  byId('said').textContent = 'Cancelled.';
});
byId('copy-file').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(byId('written').textContent ?? '');
    byId('said').textContent = 'Copied.';
  } catch {
    getSelection()?.selectAllChildren(byId('written'));
  }
});
byId('deploy').addEventListener('toggle', write);
byId('close-rules').addEventListener('click', () => {
  refused([]);
  byId('rules').focus();
});

for (const view of VIEWS) {
  const tab = byId(`view-${view}`);
  const choose = () => go({ ...state, view, limits: view === 'change' && state.limits.length < 2 && !state.toml ? [...state.limits, 'token-bucket 100/min burst 20'] : state.limits });
  tab.addEventListener('click', choose);
  tab.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = byId(`view-${VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length]}`);
    next.focus();
    next.click();
  });
}

addEventListener('dragover', (event) => event.preventDefault());
addEventListener('drop', (event) => {
  event.preventDefault();
  const dropped = event.dataTransfer?.files[0];
  if (!dropped) return;
  // A log may end in .json too.
  const isRules = /\.(toml|ya?ml)$/i.test(dropped.name) || (event.target instanceof Element && event.target.closest('#rules-part'));
  if (isRules) void openRules(dropped);
  else take(dropped);
});
addEventListener('popstate', () => go(fromHash(location.hash) ?? stateOf(), { isOld: true }));
let resizing = 0;
addEventListener('resize', () => {
  clearTimeout(resizing);
  resizing = window.setTimeout(() => draw(false), 150);
});

show(state);
go(state, { isOld: true });
document.documentElement.dataset.ready = 'yes';
