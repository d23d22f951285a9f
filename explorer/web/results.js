// What the core answered, as sentences, charts and tables.

import { chart, linear, logarithmic } from './chart.js';
import { h, s } from './dom.js';
import { behind, table } from './table.js';
import { clock, counted, grouped, micros, percent, span } from './words.js';

/** @typedef {{said: string, parts: (HTMLElement | false | null)[]}} Shown  `said` is what a screen reader hears of it */

const MINUTE = 60e6;
/** @type {[number, string][]} */
const SPANS = [[1, '1 µs'], [1e3, '1 ms'], [1e6, '1 s'], [MINUTE, '1 min'], [60 * MINUTE, '1 h'], [1440 * MINUTE, '1 d']];

/** @param {any} answer @param {number} width @param {(into: HTMLElement) => void} verify @returns {Shown} */
export function replay(answer, width, verify) {
  const sentences = answer.limiters.map((/** @type {any} */ limiter) => sentence(limiter));
  const head = headline(answer);
  return {
    said: `${head}. ${sentences.join(' ')}`,
    parts: [h('p', { class: 'headline' }, head), taken(answer), answer.limiters.length > 1 && summary(answer), scriptsToo(verify),
      ...answer.limiters.map((/** @type {any} */ limiter, /** @type {number} */ i) => card(answer, limiter, sentences[i], width))],
  };
}

/** @param {(into: HTMLElement) => void} verify */
function scriptsToo(verify) {
  const into = h('div', { id: 'verified', 'aria-live': 'polite' });
  return h('div', {}, h('button', { type: 'button', class: 'small', id: 'verify', click: () => verify(into) }, 'Run the shipped scripts too'), into);
}

/** @param {any} answer what the scripts decided, each field of each decision as the machines @returns {Shown} */
export function verified(answer) {
  if (answer.error) return { said: answer.error.message, parts: [h('p', { class: 'wrong' }, answer.error.message)] };
  const { limiters } = answer;
  const decisions = limiters.reduce((/** @type {number} */ sum, /** @type {any} */ { store }) => sum + store.scripts, 0);
  const said = `The Lua scripts that run on a Redis made ${counted(decisions, 'decision')}, and every field of each agrees with the machines.`;
  return {
    said,
    parts: [h('p', {}, said), table('The work of the store', ['limit', 'decisions', 'commands per decision', 'largest record, bytes'],
      limiters.map((/** @type {any} */ { limiter, store }) => [limiter, store.scripts,
        Object.entries(store.commands).map(([name, count]) => `${name} ${(count / store.scripts).toFixed(2)}`).join(', '), store.largest_record_bytes]))],
  };
}

/** @param {any} answer */
function summary({ limiters }) {
  return table('The limits side by side', ['limit', 'admitted', 'denied', 'denied %', 'keys denied', 'most in a window'],
    limiters.map((/** @type {any} */ { limiter, admitted, denied, keys_denied: keys, envelope }) => [limiter, admitted, denied,
      percent(denied, admitted + denied), keys, envelope ? `${grouped(envelope.window.admitted)} of ${grouped(envelope.window.allowed)}` : '-']));
}

/** @param {any} answer @returns {string} */
function headline(answer) {
  const times = `${answer.from.slice(0, 19).replace('T', ' ')} to ${answer.to.slice(0, 19).replace('T', ' ')} UTC`;
  if (answer.requests === undefined) return `Each limit has the requests that its answers led to, ${times}`;
  return `${counted(answer.requests, 'request')} of ${counted(answer.keys, 'key')}, ${times}`;
}

/** @param {any} answer @returns {HTMLElement} how a log was read, and the lines that were left out */
function taken(answer) {
  if (!answer.reading) return h('p', { hidden: true });
  const { format, key, time, cost, notes } = answer.reading;
  return h('div', {}, h('p', { class: 'note', id: 'reading' }, [`Read as ${format}: the key is ${key}; the time is ${time}; the cost is ${cost}`, ...notes].join('. ')), leftOut(answer));
}

/** @param {any} answer */
function leftOut(answer) {
  if (!answer.unparsed) return h('p', { hidden: true });
  return h('details', { class: 'left-out' },
    h('summary', {}, `${counted(answer.unparsed, 'line')} left out: no requests`),
    h('ul', {}, ...answer.unparsed_lines.map((/** @type {any} */ line) =>
      h('li', {}, `line ${grouped(line.line)}: ${line.reason} `, h('code', {}, line.text)))));
}

/** @param {any} limiter @returns {string} */
function sentence(limiter) {
  const all = limiter.admitted + limiter.denied;
  const keys = limiter.keys_denied ? ` on ${counted(limiter.keys_denied, 'key')}` : '';
  return `${limiter.limiter} admits ${grouped(limiter.admitted)} and denies ${grouped(limiter.denied)} (${percent(limiter.denied, all)})${keys}.`;
}

/** @param {any} answer @param {any} limiter @param {string} said @param {number} width */
function card(answer, limiter, said, width) {
  const { waits, against_log: log } = limiter;
  /** @type {[string, string][]} */
  const facts = [];
  if (limiter.never) facts.push(['cost above the capacity', `${grouped(limiter.never)} of them can never be admitted`]);
  if (waits) {
    facts.push(['waited', `${grouped(waits.after_waiting)} admitted after waiting, ${grouped(waits.gave_up)} gave up`]);
    if (waits.p50_us !== null) facts.push(['half waited at most', `${span(waits.p50_us)}; 99% ${span(waits.p99_us)}`]);
    facts.push(['calls to the store', `${grouped(waits.calls)}, at most ${grouped(waits.calls_in_10ms)} within 10 ms`]);
  }
  if (log) facts.push(['denied falsely', `${grouped(log.false_denials)} that an exact log of the same size had room for`]);
  if (limiter.fairness?.share) facts.push(['fairness (Jain)', limiter.fairness.share.toFixed(3)]);
  return h('section', { class: 'card' },
    h('h3', {}, h('code', {}, limiter.limiter)),
    h('p', {}, said),
    facts.length > 0 && h('dl', {}, ...facts.flatMap(([name, fact]) => [h('dt', {}, name), h('dd', {}, fact)])),
    ...timeline(limiter, width),
    ...remains(limiter, width),
    ...envelope(limiter, width),
    limiter.worst.length > 0 && table('Denied most', ['key', 'requests', 'denied', '%'],
      limiter.worst.map((/** @type {any} */ key) => [key.key, key.requests, key.denied, percent(key.denied, key.requests)])),
    limiter.clocks?.length > 0 && clocks(answer, limiter));
}

/** @param {number} from @param {number} bin @param {number} count an axis of time in bins */
function time(from, bin, count) {
  const step = Math.max(1, Math.round(count / 6));
  const ticks = [];
  for (let i = 0; i < count; i += step) ticks.push({ at: i, text: clock(from + i * bin, step * bin) });
  return { name: 'time (UTC)', place: (/** @type {number} */ value) => value / count, ticks };
}

/** @param {any} limiter @param {number} width @returns {HTMLElement[]} */
function timeline({ timeline, limiter }, width) {
  const { admitted, denied, bin_us: bin } = timeline;
  const from = micros(timeline.from);
  const count = admitted.length;
  const most = Math.max(1, ...admitted.map((/** @type {number} */ a, /** @type {number} */ i) => a + denied[i]));
  const y = linear(most, `requests per ${span(bin)}`);
  const at = (/** @type {number} */ i) => clock(from + i * bin, bin);
  const title = 'Admitted and denied over time';
  return [chart({
    title, description: `${limiter}: requests per ${span(bin)}, at most ${grouped(most)}. Arrow keys read each.`,
    width, y, x: time(from, bin, count),
    legend: [{ name: 'admitted', mark: 'admitted' }, { name: 'denied', mark: 'denied' }],
    points: admitted.map((/** @type {number} */ a, /** @type {number} */ i) => ({ at: i + 0.5, told: `${at(i)}: ${grouped(a)} admitted, ${grouped(denied[i])} denied` })),
    draw: ({ x, y }) => admitted.flatMap((/** @type {number} */ a, /** @type {number} */ i) => {
      const wide = Math.max(x(i + 1) - x(i) - 0.5, 0.5);
      /** @param {string} mark @param {number} low @param {number} high */
      const bar = (mark, low, high) => s('rect', { class: mark, x: x(i), width: wide, y: y(high), height: Math.max(y(low) - y(high), 1) });
      return [a > 0 && bar('admitted', 0, a), denied[i] > 0 && bar('denied', a, a + denied[i])].filter((bar) => bar !== false);
    }),
  }), behind(title, () => table(title, ['from', 'admitted', 'denied'],
    admitted.map((/** @type {number} */ a, /** @type {number} */ i) => [at(i), a, denied[i]])))];
}

/** @param {any} limiter @param {number} width @returns {HTMLElement[]} */
function remains({ state, denied }, width) {
  if (!state) return [];
  const { lowest, slot_us: slot, capacity, key } = state;
  const from = micros(state.from);
  const title = `What remains for ${key}, ${denied ? 'denied most' : 'the busiest'}`;
  const at = (/** @type {number} */ i) => clock(from + i * slot, slot);
  return [chart({
    title, description: `The least that remained in each ${span(slot)}, of ${grouped(capacity)}. Arrow keys read each.`,
    width, height: 150, y: linear(capacity, `least in ${span(slot)}`), x: time(from, slot, lowest.length),
    legend: [],
    points: lowest.map((/** @type {number} */ least, /** @type {number} */ i) => ({ at: i + 0.5, told: `${at(i)}: ${grouped(least)} of ${grouped(capacity)}` })),
    draw: ({ x, y, bottom }) => {
      const steps = lowest.map((/** @type {number} */ least, /** @type {number} */ i) => `V${y(least).toFixed(1)}H${x(i + 1).toFixed(1)}`);
      return [s('path', { class: 'remains', d: `M${x(0)} ${bottom}${steps.join('')}V${bottom}Z` })];
    },
  }), behind('what remains', () => table(title, ['from', 'least'], lowest.map((/** @type {number} */ least, /** @type {number} */ i) => [at(i), least])))];
}

/** @param {any} limiter @param {number} width @returns {HTMLElement[]} */
function envelope({ envelope }, width) {
  if (!envelope) return [];
  const { curve, worst, window, law } = envelope;
  const most = Math.max(...curve.map((/** @type {number[]} */ point) => Math.max(point[1], point[2])));
  const powers = Array.from({ length: 17 }, (_, i) => ({ at: 10 ** i, text: i < 4 ? grouped(10 ** i) : `10^${i}` }));
  const title = 'A(T), the most in any span T, under the envelope';
  return [chart({
    title,
    description: `${law}: at most ${grouped(worst.admitted)} of ${grouped(worst.allowed)} in ${span(worst.span_us)}, the span that uses most. Arrow keys read each span.`,
    width, y: logarithmic(1, most * 1.3, 'most in T', powers),
    x: logarithmic(curve[0][0], curve[curve.length - 1][0], 'length of the span T', SPANS.map(([at, text]) => ({ at, text }))),
    legend: [{ name: 'A(T)', mark: 'admitted' }, { name: `envelope ${law}`, mark: 'bound' }],
    points: curve.map((/** @type {number[]} */ point) => ({ at: point[0], told: `in ${span(point[0])}: ${grouped(point[1])} of ${grouped(point[2])}` })),
    draw: ({ x, y }) => {
      /** @param {number} column */
      const line = (column) => `M${curve.map((/** @type {number[]} */ point) => `${x(point[0]).toFixed(1)} ${y(point[column]).toFixed(1)}`).join('L')}`;
      return [s('path', { class: 'line bound', d: line(2) }), s('path', { class: 'line admitted', d: line(1) }),
        s('circle', { class: 'most', r: 5, cx: x(worst.span_us), cy: y(worst.admitted) })];
    },
  }),
  h('p', { class: 'note' }, `Most of the envelope is used in ${span(worst.span_us)}: ${grouped(worst.admitted)} of ${grouped(worst.allowed)} (${percent(worst.admitted, worst.allowed)}), by ${worst.key}. In one window of ${span(window.span_us)} it admits at most ${grouped(window.admitted)}; its name says ${grouped(window.allowed)}.`),
  behind('A(T)', () => table(title, ['T', 'A(T)', 'envelope'], curve.map((/** @type {number[]} */ point) => [span(point[0]), point[1], point[2]])))];
}

const WAYS = /** @type {Record<string, string>} */ ({
  store: "the store's clock", 'deny-cache': 'a deny cache per node', 'callers-time': "the callers' clocks", shares: 'each node its share',
});

/** @param {any} answer @param {any} limiter */
function clocks({ clocks: { nodes, skew_us: skew } }, limiter) {
  return table(`Decided by ${counted(nodes, 'node')} with clocks off by up to ${span(skew)}`,
    ['by', 'admitted', 'only so', 'only by the store', 'most in a window', 'calls'],
    limiter.clocks.map((/** @type {any} */ way) => [WAYS[way.way] ?? way.way, way.admitted, way.only_it, way.only_store,
      way.window ? `${grouped(way.window.admitted)} of ${grouped(way.window.allowed)}` : '-', way.calls]));
}

/** @param {any} answer @param {number} width @returns {Shown} */
export function change(answer, width) {
  const [deployed] = answer.limiters;
  if (!answer.pairs) {
    const said = 'A change needs a second limit, which decides in the shadow of the first.';
    return { said, parts: [h('p', { class: 'headline' }, said)] };
  }
  const pairs = answer.pairs.filter((/** @type {any} */ pair) => pair.first === deployed.limiter);
  const told = pairs.map((/** @type {any} */ pair) => `${pair.second} in place of ${pair.first} would newly deny ${counted(pair.only_first, 'request')} and newly admit ${grouped(pair.only_second)}, on ${counted(pair.keys_differing, 'key')}.`);
  const section = (/** @type {any} */ pair, /** @type {number} */ i) => h('section', { class: 'card' },
    h('h3', {}, h('code', {}, pair.second)),
    h('p', {}, told[i]),
    bars(pair, width),
    table('Both on the identical requests', ['outcome', 'requests'], outcomes(pair)),
    pair.keys.length > 0 && table('Keys that notice most', ['key', 'requests', 'newly denied', 'newly admitted'],
      pair.keys.map((/** @type {any} */ key) => [key.key, key.requests, key.only_first, key.only_second])));
  return {
    said: told.join(' '),
    parts: [h('p', { class: 'headline' }, `${headline(answer)}. Deployed is `, h('code', {}, deployed.limiter), '; the others decide in its shadow.'),
      taken(answer), ...pairs.map(section),
      table('Each pair on the identical requests', ['first', 'second', 'both', 'only the first', 'only the second', 'neither'],
        answer.pairs.map((/** @type {any} */ pair) => [pair.first, pair.second, pair.both, pair.only_first, pair.only_second, pair.neither]), { texts: 2 })],
  };
}

/** @param {any} pair @returns {[string, number][]} */
const outcomes = (pair) => [['admitted by both', pair.both], ['newly denied', pair.only_first], ['newly admitted', pair.only_second], ['denied by both', pair.neither]];

/** @param {any} pair @param {number} width */
function bars(pair, width) {
  const all = outcomes(pair);
  const y = linear(Math.max(...all.map(([, count]) => count)), 'requests');
  const marks = ['admitted', 'denied', 'bound', 'neither'];
  return chart({
    title: 'What changes', description: all.map(([name, count]) => `${name}: ${grouped(count)}`).join(', '), width, height: 150, y,
    x: { name: '', place: (value) => value / 4, ticks: all.map(([name], i) => ({ at: i + 0.5, text: name })) },
    legend: [], points: all.map(([name, count], i) => ({ at: i + 0.5, told: `${name}: ${counted(count, 'request')}` })),
    draw: ({ x, y, bottom }) => all.map(([, count], i) => s('rect', {
      class: marks[i], x: x(i + 0.2), width: x(i + 0.8) - x(i + 0.2), y: y(count), height: Math.max(bottom - y(count), count ? 1 : 0),
    })),
  });
}

/** @param {any} answer @param {number} width @returns {Shown} */
export function worst(answer, width) {
  const { most_admitted: most, falsely_denied: falsely, limiter, laws } = answer;
  const admits = most
    ? `It admits ${grouped(most.amount)} within ${span(most.window_us)}; by its name that is ${grouped(most.nominal)}, and its envelope (${laws}) allows ${grouped(most.bound)}.`
    : 'No trace was found in which it admits anything.';
  const denies = falsely
    ? `It denies ${grouped(falsely.amount)} of ${grouped(falsely.nominal)} for which an exact log of the same capacity and rate has room.`
    : 'No trace was found in which it denies what an exact log of the same capacity and rate has room for.';
  return {
    said: `${limiter}: ${admits} ${denies}`,
    parts: [h('p', { class: 'headline' }, h('code', {}, limiter), `: the worst of about ${grouped(2 * answer.budget)} traces (seed ${answer.seed})`),
      h('section', { class: 'card' }, h('h3', {}, 'Admits the most in one window'), h('p', {}, admits), most && steps(most, width)),
      h('section', { class: 'card' }, h('h3', {}, 'Denies what would fit'), h('p', {}, denies), falsely && steps(falsely, width))],
  };
}

/** @param {any} found @param {number} width */
function steps(found, width) {
  const { trace } = found;
  const first = trace[0]?.at_us ?? 0;
  const length = Math.max(trace[trace.length - 1]?.at_us - first, 1);
  const after = (/** @type {any} */ step) => `after ${span(step.at_us - first)}`;
  const word = (/** @type {any} */ step) => (step.admitted ? 'admitted' : 'denied');
  return h('div', {}, chart({
    title: 'The trace', description: trace.map((/** @type {any} */ step) => `${after(step)}: ${grouped(step.cost)} ${word(step)}`).join('; '),
    width, height: 150, y: linear(Math.max(...trace.map((/** @type {any} */ step) => step.cost)), 'cost'),
    x: { name: 'time from the first request', place: (value) => 0.03 + (value / length) * 0.94,
      ticks: trace.map((/** @type {any} */ step) => ({ at: step.at_us - first, text: span(step.at_us - first) })) },
    legend: [{ name: 'admitted', mark: 'admitted' }, { name: 'denied', mark: 'denied' }],
    points: trace.map((/** @type {any} */ step) => ({ at: step.at_us - first, told: `${after(step)}: ${grouped(step.cost)} ${word(step)}, ${grouped(step.in_window)} in the window` })),
    draw: ({ x, y, bottom }) => trace.map((/** @type {any} */ step) => s('rect', {
      class: word(step), x: x(step.at_us - first) - 3, width: 6, y: y(step.cost), height: bottom - y(step.cost),
    })),
  }), table('Its requests', ['after', 'cost', 'is', 'in the window so far'],
    trace.map((/** @type {any} */ step) => [span(step.at_us - first), step.cost, word(step), step.in_window])));
}

/** @param {any} answer @param {number} width @param {(limit: string) => void} take @returns {Shown} */
export function advise(answer, width, take) {
  const { families, buckets, clients, deny_clients: deny, may_deny: may, deploy, requests } = answer;
  /** @param {any} row */
  const choose = (row) => h('button', { type: 'button', class: 'small', 'aria-label': `Use ${row.limit}`, click: () => take(row.limit) }, 'Use');
  const said = `Deploy ${deploy.limit}: the smallest rate and burst that deny fewer than ${deny} of the clients, at most ${grouped(may)}. It would have denied ${grouped(deploy.clients_denied)} of ${counted(clients, 'client')}, and ${grouped(deploy.requests_denied)} of ${counted(requests, 'request')}.`;
  const rows = (/** @type {any[]} */ list) => h('div', { class: 'wide', role: 'group', tabindex: 0, 'aria-label': 'Limits' }, h('table', {},
    h('thead', {}, h('tr', {}, ...['limit', 'clients denied', 'requests denied', ''].map((name, i) => h('th', { scope: 'col', class: i ? 'number' : null }, name || h('span', { class: 'unseen' }, 'take'))))),
    h('tbody', {}, ...list.map((row) => h('tr', {}, h('th', { scope: 'row' }, h('code', {}, row.limit)),
      h('td', { class: 'number' }, grouped(row.clients_denied)), h('td', { class: 'number' }, grouped(row.requests_denied)), h('td', {}, choose(row)))))));
  return {
    said,
    parts: [h('p', { class: 'headline' }, said, ' ', choose(deploy)), taken(answer),
      h('section', { class: 'card' }, h('h3', {}, 'The smallest limits'), rows(families.map((/** @type {any} */ family) => family.advised))),
      h('section', { class: 'card' }, h('h3', {}, 'Rate against burst'), h('p', {}, 'For each rate the smallest burst that denies as few.'), rows(buckets)),
      h('section', { class: 'card' }, h('h3', {}, 'The trade-off'), h('p', {}, 'The clients that a limit of each amount per window would have denied.'),
        ...families.filter((/** @type {any} */ family) => family.kind === 'token-bucket').flatMap((/** @type {any} */ family) => trade(family, clients, width)))],
  };
}

/** @param {any} family @param {number} clients @param {number} width @returns {HTMLElement[]} */
function trade({ kind, window_us: window, curve }, clients, width) {
  const title = `${kind}, per ${span(window)}`;
  const last = curve[curve.length - 1].amount;
  const powers = Array.from({ length: 16 }, (_, i) => ({ at: 10 ** i, text: grouped(10 ** i) }));
  return [chart({
    title, description: `Clients denied of ${grouped(clients)}, for amounts from 1 to ${grouped(last)}. Arrow keys read each.`,
    width, height: 150, y: linear(Math.max(...curve.map((/** @type {any} */ point) => point.clients_denied)), 'clients denied'),
    x: logarithmic(1, Math.max(last, 2), 'amount per window', powers), legend: [],
    points: curve.map((/** @type {any} */ point) => ({ at: point.amount, told: `${point.limit} denies ${counted(point.clients_denied, 'client')}` })),
    draw: ({ x, y }) => [s('path', { class: 'line denied', d: `M${curve.map((/** @type {any} */ point) => `${x(point.amount).toFixed(1)} ${y(point.clients_denied).toFixed(1)}`).join('L')}` })],
  }), behind(title, () => table(title, ['amount', 'clients denied', 'requests denied'],
    curve.map((/** @type {any} */ point) => [grouped(point.amount), point.clients_denied, point.requests_denied])))];
}
