// The state of the page, and its form in the URL: every state can be sent to somebody.

/**
 * @typedef {{name: string, shape: string, keys: string, cost: string, duration: string, start: string, after: string}} Traffic
 * @typedef {{wait: string, 'round-trip': string, processes: string, jitter: boolean}} Callers
 * @typedef {{nodes: string, skew: string, 'drift-ppm': string}} Clocks
 * @typedef {{name: string, format: string, by: string, key: string, trust: string, ipv6_prefix: string}} Log
 * @typedef {'replay' | 'change' | 'worst' | 'advise'} View
 * @typedef {'rules' | 'limits'} Kind  of the file that is written
 * @typedef {{
 *   view: View, limits: string[], names: string[], traffic: Traffic[], seed: string, callers: Callers | null,
 *   clocks: Clocks | null, toml: string | null, log: Log | null,
 *   deny: string, windows: string, preset: string, kind: Kind, counted: string, trial: boolean,
 * }} State
 */

/** @type {(keyof Traffic)[]} */
export const TRAFFIC = ['name', 'shape', 'keys', 'cost', 'duration', 'start', 'after'];
/** How a log is read. @type {(keyof Log)[]} */
export const LOG = ['format', 'by', 'key', 'trust', 'ipv6_prefix'];
/** @type {View[]} */
export const VIEWS = ['replay', 'change', 'worst', 'advise'];

/** @returns {Traffic} */
export function traffic(shape = '', rest = {}) {
  return { name: '', shape, keys: '', cost: '', duration: '', start: '', after: '', ...rest };
}

/** @returns {Log} */
export const log = (name = '', rest = {}) => ({ name, format: '', by: '', key: '', trust: '', ipv6_prefix: '', ...rest });

/** @param {Partial<State>} [parts] @returns {State} */
export function state(parts = {}) {
  return {
    view: 'replay', limits: [''], names: [], traffic: [traffic()], seed: '', callers: null, clocks: null, toml: null,
    log: null, deny: '', windows: '', preset: '', kind: 'rules', counted: '', trial: false, ...parts,
  };
}

/** @param {State} state @returns {string} the part of a URL after `#` */
export function toHash(state) {
  const params = new URLSearchParams();
  /** @param {string} name @param {string} value */
  const put = (name, value) => { if (value !== '') params.append(name, value); };
  if (state.view !== 'replay') put('view', state.view);
  if (state.toml !== null) params.append('toml', state.toml);
  for (const limit of state.limits) params.append('limit', limit);
  state.names.forEach((name, i) => put(`name${i + 1}`, name));
  if (state.log) {
    params.append('log', state.log.name);
    for (const field of LOG) put(field, state.log[field]);
  }
  // Fields of several shapes are told apart by their places, so that empty ones of them stay.
  state.traffic.forEach((one, i) => {
    for (const field of TRAFFIC) put(i === 0 ? field : `${field}.${i + 1}`, one[field]);
  });
  put('seed', state.seed);
  if (state.callers) {
    params.append('wait', state.callers.wait);
    put('round-trip', state.callers['round-trip']);
    put('processes', state.callers.processes);
    if (!state.callers.jitter) put('jitter', 'no');
  }
  if (state.clocks) {
    params.append('nodes', state.clocks.nodes);
    put('skew', state.clocks.skew);
    put('drift-ppm', state.clocks['drift-ppm']);
  }
  put('deny', state.deny);
  put('windows', state.windows);
  put('preset', state.preset);
  if (state.kind !== 'rules') put('kind', state.kind);
  put('counted', state.counted);
  if (state.trial) put('trial', 'yes');
  return params.toString();
}

/** @param {string} hash with or without `#` @returns {State | null} null if it says nothing */
export function fromHash(hash) {
  const params = new URLSearchParams(hash.replace(/^#/, ''));
  if (![...params.keys()].length) return null;
  /** @param {string} name */
  const get = (name) => params.get(name) ?? '';
  const view = VIEWS.find((view) => view === get('view')) ?? 'replay';
  /** @type {Traffic[]} */
  const shapes = [];
  for (const [name, value] of params) {
    const [, field, place] = /^([a-z]+)(?:\.(\d{1,2}))?$/.exec(name) ?? [];
    const known = TRAFFIC.find((known) => known === field);
    if (!known) continue;
    const at = Number(place ?? 1) - 1;
    if (at < 0) continue;
    while (shapes.length <= at) shapes.push(traffic());
    shapes[at][known] = value;
  }
  const names = params.getAll('limit').map((_, i) => get(`name${i + 1}`));
  return state({
    view,
    limits: params.has('limit') ? params.getAll('limit') : [''],
    names: names.some((name) => name !== '') ? names : [],
    traffic: shapes.length ? shapes : [traffic()],
    seed: get('seed'),
    callers: params.has('wait')
      ? { wait: get('wait'), 'round-trip': get('round-trip'), processes: get('processes'), jitter: get('jitter') !== 'no' } : null,
    clocks: params.has('nodes')
      ? { nodes: get('nodes'), skew: get('skew'), 'drift-ppm': get('drift-ppm') } : null,
    toml: params.get('toml'),
    log: params.has('log') ? log(get('log'), Object.fromEntries(LOG.map((field) => [field, get(field)]))) : null,
    deny: get('deny'),
    windows: get('windows'),
    preset: get('preset'),
    kind: get('kind') === 'limits' ? 'limits' : 'rules',
    counted: get('counted'),
    trial: get('trial') === 'yes',
  });
}

/**
 * @typedef {{text: string, fields: {from: number, to: number, id: string}[]}} Written  a scenario in TOML, and which field of
 * the form stands where, in bytes of it
 */

/** @param {State} state @returns {Written} the scenario as `lockage-sim explore --scenario` reads it */
export function toToml(state) {
  const { callers, clocks } = state;
  /** @type {Written} */
  const written = { text: '', fields: [] };
  let bytes = 0;
  /** @param {string} text @param {string} [id] the field that it is of */
  const put = (text, id) => {
    const to = bytes + new TextEncoder().encode(text).length;
    if (id) written.fields.push({ from: bytes, to, id });
    written.text += text;
    bytes = to;
  };
  /** @param {string} title @param {string} of @param {[string, string, boolean?][]} fields name, value, and whether it is bare */
  const table = (title, of, fields) => {
    put(`${title}\n`, `${of}.${fields[0][0]}`);
    for (const [name, value, isBare] of fields) {
      // Whole numbers are numbers, and what is not is text that the core refuses.
      const bare = isBare && /^(\d{1,15}|true|false)$/.test(value.trim());
      if (value.trim() !== '') put(`${name} = ${bare ? value.trim() : quoted(value)}\n`, `${of}.${name}`);
    }
  };
  if (state.seed.trim()) put(`seed = ${/^\d{1,15}$/.test(state.seed.trim()) ? state.seed.trim() : quoted(state.seed)}\n`, 'seed');
  put('limits = [\n');
  state.limits.forEach((limit, i) => put(`    ${quoted(limit)},\n`, `limits[${i}]`));
  put(']\n');
  if (!state.log) {
    state.traffic.forEach((one, i) => table(state.traffic.length > 1 ? '\n[[traffic]]' : '\n[traffic]', `traffic[${i}]`,
      /** @type {[string, string][]} */ (['shape', ...TRAFFIC.filter((name) => name !== 'shape')].map((name) => [name, one[/** @type {keyof Traffic} */ (name)]]))));
  }
  if (callers) {
    table('\n[callers]', 'callers', [['wait', callers.wait], ['round-trip', callers['round-trip']], ['processes', callers.processes, true], ['jitter', callers.jitter ? '' : 'false', true]]);
  }
  if (clocks) {
    table('\n[clocks]', 'clocks', [['nodes', clocks.nodes, true], ['skew', clocks.skew], ['drift-ppm', clocks['drift-ppm'], true]]);
  }
  return written;
}

/** @param {string} text */
const quoted = (text) => JSON.stringify(text).replace(/\x7f/g, '\\u007f');

/** @param {State} state @param {any} form the answer to the question `form` @returns {State} the state of a form */
export function fromForm(state, form) {
  /** @param {unknown} value */
  const text = (value) => (value === undefined ? '' : String(value));
  const shapes = Array.isArray(form.traffic) ? form.traffic : [form.traffic];
  return {
    ...state,
    toml: null,
    seed: text(form.seed),
    limits: form.limits.map(text),
    traffic: shapes.map((/** @type {any} */ one) =>
      traffic('', Object.fromEntries(TRAFFIC.map((field) => [field, text(one[field])])))),
    callers: form.callers
      ? { wait: text(form.callers.wait), 'round-trip': text(form.callers['round-trip']), processes: text(form.callers.processes), jitter: form.callers.jitter !== false }
      : null,
    clocks: form.clocks
      ? { nodes: text(form.clocks.nodes), skew: text(form.clocks.skew), 'drift-ppm': text(form.clocks['drift-ppm']) } : null,
  };
}

/** @param {State} state @returns {string} the file of named limits that a program reads into a struct of `Limit`s */
export function limitsFile(state) {
  return state.limits.map((limit, i) => `${nameOf(state, i)} = ${quoted(limit)}\n`).join('');
}

/** @param {State} state @returns {string} a file with a rule for each limit: the first is enforced, the others are on trial */
export function rulesFile(state) {
  const cost = onlyCost(state);
  return state.limits.map((limit, i) => {
    const name = nameOf(state, i);
    const key = keyOf(state);
    const fields = [`name = ${quoted(name)}`, `id = ${quoted(key && `${name}:{${key}}` || name)}`, `limit = ${quoted(limit)}`];
    if (cost > 1) fields.push(`cost = ${cost}`);
    if (state.trial || i > 0) fields.push('shadow = true');
    return `[[rules]]\n${fields.join('\n')}\n`;
  }).join('\n');
}

/** What rules call the parts of a log's lines. */
const KEYS = /** @type {Record<string, string>} */ ({ '': 'address', path: 'route', referer: 'header.referer', agent: 'header.user-agent', all: '' });

/** @param {State} state @returns {string} the key of the ids of rules; none if all requests have one id */
export function keyOf({ counted, log }) {
  if (counted.trim()) return counted.trim();
  const key = log?.key.trim().replace(/[{}|"\\]/g, '') || (KEYS[log?.by ?? ''] ?? log?.by);
  // Lines without it are one client, as the page counts them.
  return !key || key === 'address' ? key : `${key}|-`;
}

/** @param {State} state @returns {number} the cost of each request of traffic, if all have the same; otherwise 1 */
function onlyCost({ traffic, log }) {
  const [cost, ...others] = new Set(traffic.map(({ cost }) => cost.trim()));
  return !log && !others.length && /^\d{1,15}$/.test(cost) ? Number(cost) : 1;
}

/** @param {State} state @param {number} i @returns {string} the name of a limit, as a bare key of TOML */
export function nameOf(state, i) {
  const name = (state.names[i] ?? '').trim().replace(/[^A-Za-z0-9_-]+/g, '_');
  return name || (state.limits.length > 1 ? `limit_${i + 1}` : 'limit');
}

/**
 * @param {State} state @param {number | null} file the number of the dropped log, if there is one
 * @returns {object | null} the question of the view; null while a log is awaited
 */
export function question(state, file) {
  if (state.view === 'worst') return { verb: 'worst', limit: state.limits[0] ?? '' };
  if (state.log && file === null) return null;
  return {
    verb: { replay: 'replay', change: 'compare', advise: 'advise' }[state.view],
    toml: state.toml !== null && !state.log ? state.toml : toToml(state).text,
    ...(state.log && { log: { id: file, ...reading(state.log) } }),
    ...(state.view === 'advise' && state.deny.trim() && { deny_clients: state.deny }),
    ...(state.view === 'advise' && state.windows.trim() && { windows: state.windows.split(',').map((window) => window.trim()) }),
  };
}

/** @param {Log} log the fields that say something, as the core takes them */
function reading({ trust, ipv6_prefix: prefix, ...texts }) {
  const filled = Object.entries(texts).filter(([, value]) => value !== '');
  return {
    ...Object.fromEntries(filled),
    ...(trust.trim() && { trust: trust.split(',').map((network) => network.trim()) }),
    // What is no number, the core refuses at its field.
    ...(prefix.trim() && { ipv6_prefix: /^\d{1,2}$|^1[0-4]\d$/.test(prefix.trim()) ? Number(prefix) : 0 }),
  };
}

/** @typedef {{message: string, field?: string, span?: {start: number, end: number}}} Wrong */

/** @param {State} state @param {Wrong} wrong @returns {string} the id of the field that is wrong; empty if none is */
export function wrongField(state, { field, span }) {
  if (field === 'limit') return 'limits[0]';
  if (field !== 'toml' || !span) return field === 'toml' ? '' : field ?? '';
  if (state.toml !== null && !state.log) return 'toml';
  return toToml(state).fields.find(({ from, to }) => span.start >= from && span.start < to)?.id ?? '';
}
