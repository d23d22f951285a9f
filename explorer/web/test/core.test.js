// The module under Node: what it answers is what the command line prints, and it is small and quick.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { core, needsZones } from '../core.js';
import { PRESETS } from '../presets.js';
import * as ruled from '../rules.js';
import { fromForm, fromHash, log as logOf, question, rulesFile, state, toHash, toToml, traffic, wrongField } from '../state.js';

const DIST = new URL('../../dist/', import.meta.url);
const SIM = new URL('../../../sim/', import.meta.url);
const PROGRAM = process.env.LOCKAGE_SIM ?? new URL('../../../target/debug/lockage-sim', import.meta.url).pathname;

const module = new WebAssembly.Module(readFileSync(new URL('explorer.wasm', DIST)));
/** @type {Buffer} */
let file;
let place = 0;

const start = () => core(module, {
  open() { place = 0; },
  read(_file, most) {
    const bytes = file.subarray(place, place + most);
    place += bytes.length;
    return bytes;
  },
  progress(done, all) { assert.ok(done <= all); },
});
const { ask, loadZones } = await start();

/** @param {string[]} args */
const printed = (...args) => execFileSync(PROGRAM, [...args, '--json'], { encoding: 'utf8', maxBuffer: 1 << 28 });
/** @param {object} question */
const asked = (question) => ask(JSON.stringify(question));

test('the answers about every scenario are those of the command line, byte for byte', () => {
  const folder = new URL('scenarios/', SIM);
  for (const name of readdirSync(folder)) {
    const path = new URL(name, folder).pathname;
    const toml = readFileSync(path, 'utf8');
    assert.equal(asked({ verb: 'replay', toml }), printed('explore', '--scenario', path, '--engine', 'model'), name);
    // What the form makes of it asks the same.
    const form = fromForm(state(), JSON.parse(asked({ verb: 'form', toml })));
    assert.equal(asked({ verb: 'replay', toml: toToml(form).text }), asked({ verb: 'replay', toml }), name);
  }
});

test('a log is read in slices, packed or not, and every question has the answer of the command line', () => {
  const path = new URL('traces/sample.log', SIM).pathname;
  const toml = 'limits = ["fixed-window 20/10s"]';
  const expected = printed('replay', path, '--limit', 'fixed-window 20/10s', '--engine', 'model');
  [readFileSync(path), gzipSync(readFileSync(path))].forEach((bytes, id) => {
    file = bytes;
    assert.equal(asked({ verb: 'replay', toml, log: { id, name: 'sample.log' } }), expected);
  });
  assert.equal(asked({ verb: 'advise', toml, log: { id: 1, name: 'sample.log' } }), printed('advise', path));
  const herd = new URL('scenarios/retry-herd.toml', SIM).pathname;
  assert.equal(asked({ verb: 'compare', toml: readFileSync(herd, 'utf8') }), printed('compare', herd, '--engine', 'model'));
  const limit = 'sliding-window 10/60s';
  assert.equal(asked({ verb: 'worst', limit }), printed('worst', limit, '--engine', 'model'));
});

test('a sample of every format is read as by the command line, also with what the form says of it', () => {
  const folder = new URL('traces/formats/', SIM);
  const names = readdirSync(folder);
  assert.ok(names.length >= 12);
  const limits = ['fixed-window 2/s'];
  names.forEach((name, i) => {
    const path = new URL(name, folder).pathname;
    file = readFileSync(path);
    const read = logOf(name, { trust: '10.0.0.0/8', ipv6_prefix: '56' });
    const options = ['--trust', '10.0.0.0/8', '--ipv6-prefix', '56'];
    const answer = asked(/** @type {object} */ (question(state({ limits, log: read }), 100 + i)));
    assert.equal(answer, printed('replay', path, '--limit', limits[0], '--engine', 'model', ...options), name);
    const advised = asked(/** @type {object} */ (question(state({ view: 'advise', limits, log: read }), 100 + i)));
    assert.equal(advised, printed('advise', path, ...options), name);
  });
  const { error } = JSON.parse(asked(/** @type {object} */ (question(state({ limits, log: logOf('a', { ipv6_prefix: 'x' }) }), 99))));
  assert.equal(error.field, 'ipv6_prefix');
});

test('windows of a calendar need the data of time zones, which is a file of its own', () => {
  const zones = readFileSync(new URL('zones.bin', DIST));
  const limit = 'calendar-window 100/day in Europe/Berlin';
  const toml = `limits = ["${limit}"]\ntraffic = { shape = "poisson 1/min", duration = "3day" }`;
  assert.ok(needsZones(toml) && needsZones('"\\u0063alendar-window 1/day"') && !needsZones('sliding-log 5/s'));
  loadZones(zones.buffer.slice(zones.byteOffset, zones.byteOffset + zones.length));
  const expected = printed('explore', '--traffic', 'poisson 1/min', '--duration', '3day', '--limit', limit, '--engine', 'model');
  assert.equal(asked({ verb: 'replay', toml }), expected);
});

test('the scripts in the Lua of a page decide, write and cost what they do in C Lua', async () => {
  const scripts = await core(new WebAssembly.Module(readFileSync(new URL('scripts.wasm', DIST))), { open() {}, read: () => null, progress() {} });
  /** @param {string} name @param {string} path */
  const alike = (name, path) => {
    // Also each field of each decision as the machines, or the answer is an error.
    const answer = scripts.ask(JSON.stringify({ verb: 'verify', toml: readFileSync(path, 'utf8') }));
    assert.equal(answer, printed('explore', '--scenario', path, '--engine', 'lua'), name);
  };
  // The large ones have no kind of limit that the one below has not.
  for (const name of ['attack-interval-bucket', 'attack-sliding-window', 'retry-herd', 'skewed-clocks']) {
    alike(name, new URL(`scenarios/${name}.toml`, SIM).pathname);
  }
  const folder = mkdtempSync(join(tmpdir(), 'lockage-explorer-'));
  const path = join(folder, 'every-kind.toml');
  writeFileSync(path, `limits = ["fixed-window 60/min", "sliding-log 60/min", "sliding-window 60/min", "token-bucket 1/s burst 30",
    "token-bucket 8 every 9s burst 20", "leaky-bucket 1/s queue 20", "calendar-window 700/day in Europe/Berlin",
    "token-bucket 2/s burst 40 + sliding-log 1000/10min"]
    traffic = { shape = "flash-crowd 5/s peak 50/s at 1min half-life 30s", keys = "20 zipf 1.1", cost = "1:95% 10:5%", duration = "4min" }`);
  alike('every kind', path);
  rmSync(folder, { recursive: true });
  assert.match(asked({ verb: 'verify', toml: 'limits = ["sliding-log 5/s"]\ntraffic = { shape = "poisson 5/s" }' }), /there is no Lua/);
});

const scratch = mkdtempSync(join(tmpdir(), 'lockage-explorer-'));
after(() => rmSync(scratch, { recursive: true }));

/** Checks a file of rules by the command line. @param {string} name @param {string} text @returns {string[]} its mistakes */
function checked(name, text) {
  writeFileSync(join(scratch, name), text);
  const { status, stderr } = spawnSync(PROGRAM, ['rules', name, '--check'], { cwd: scratch, encoding: 'utf8' });
  const lines = stderr.trim().split('\n').filter((line) => line.startsWith(`${name}:`));
  assert.equal(status, lines.length ? 1 : 0, stderr);
  return lines;
}

/** @param {ruled.RulesFile} file @param {import('../state.js').State} [tried] @returns {ruled.Answer} */
const rules = (file, tried) => JSON.parse(asked(ruled.question(file, tried)));

test('rules that the page writes have no mistakes by the command line', () => {
  const limits = ['fixed-window 60/min', 'calendar-window 100/day', 'requests: sliding-log 3/7s + tokens: fixed-window 20/h'];
  const of = traffic('poisson 5/s', { cost: '2' });
  const states = [...PRESETS.map((preset) => preset.state),
    state({ limits, names: ['log in', '', 'é'], traffic: [of, of] }), state({ limits, counted: 'user|anonymous', trial: true }),
    ...['', 'user', 'path', 'referer', 'agent', 'status', 'all'].map((by) => state({ limits, log: logOf('a.log', { by }) })),
    state({ limits, log: logOf('a.csv', { key: ' {a|b}"c\\ ' }), traffic: [of] })];
  for (const one of states) {
    const text = rulesFile(one);
    assert.deepEqual(checked('rules.toml', text), [], text);
    const read = rules({ name: 'rules.toml', text });
    assert.deepEqual([read.mistakes, read.text, read.given.length], [[], text, one.limits.length], text);
  }
  assert.equal(rulesFile(state({ limits: limits.slice(0, 2), names: ['log in', ''], traffic: [of, of] })), `[[rules]]
name = "log_in"
id = "log_in:{address}"
limit = "fixed-window 60/min"
cost = 2

[[rules]]
name = "limit_2"
id = "limit_2:{address}"
limit = "calendar-window 100/day"
cost = 2
shadow = true
`);
  assert.match(rulesFile(state({ limits, trial: true, log: logOf('a.log', { by: 'path' }), traffic: [of] })), /^\[\[rules\]\]\nname = "limit_1"\nid = "limit_1:\{route\|-\}"\nlimit = "fixed-window 60\/min"\nshadow = true\n/);
});

test('a rule that the page writes denies on a log what its limit denies in the page', () => {
  const path = new URL('traces/sample.log', SIM).pathname;
  file = readFileSync(path);
  ['', 'user', 'path', 'agent', 'status', 'all'].forEach((by, i) => {
    const one = state({ limits: ['fixed-window 2/10s'], log: logOf('sample.log', { by }) });
    const { limiters: [{ denied }] } = JSON.parse(asked(/** @type {object} */ (question(one, 200 + i))));
    writeFileSync(join(scratch, 'one.toml'), rulesFile(one));
    const replayed = JSON.parse(printed('replay', path, '--rules', join(scratch, 'one.toml')));
    assert.equal(replayed.denied, denied, by);
    assert.ok(denied > 0, by);
  });
});

test('limits of a file of rules are tried, and written into it where they changed', () => {
  const page = readFileSync(new URL('../../../docs/rules.md', import.meta.url), 'utf8');
  const [, book] = /```toml\n([^`]*)```/.exec(page) ?? [];
  const folder = new URL('../../../rules/files/', import.meta.url);
  const files = readdirSync(folder).map((name) => ({ name, text: readFileSync(new URL(name, folder), 'utf8') }));
  assert.ok(files.length > 3 && files.some(({ text }) => text === book));
  for (const file of files) {
    const read = rules(file);
    assert.deepEqual([read.mistakes, read.text], [[], file.text], file.name);
    const tried = ruled.opened(state(), read.given);
    assert.equal(tried.limits.length, Math.min(read.given.length, 4));
    assert.ok(!('error' in JSON.parse(asked(/** @type {object} */ (question({ ...tried, traffic: [traffic('poisson 5/s')] }, null))))), file.name);
    assert.equal(rules(file, tried).text, file.text, 'nothing was changed');
    // Each is twice as many, so that no cost is above one.
    const limits = tried.limits.map((limit) => limit.replaceAll(/\d+(?=\/)/g, (number) => String(2 * Number(number))));
    const { text, mistakes } = rules(file, { ...tried, limits });
    assert.deepEqual(mistakes, []);
    assert.deepEqual(checked(file.name, text ?? ''), []);
    const lines = (text ?? '').split('\n');
    const changed = file.text.split('\n').filter((line, i) => line !== lines[i]);
    assert.equal(changed.length, limits.length, changed.join('\n'));
  }
  const { given } = rules({ name: 'rules.toml', text: book });
  assert.deepEqual(given.map(({ name }) => name), ['exports', 'requests', 'requests · pro', 'chat']);
  const tried = ruled.opened(state(), given);
  const without = ruled.toggled(tried, given[1]);
  assert.deepEqual(without.names, ['exports', 'requests · pro', 'chat']);
  assert.deepEqual(ruled.toggled(without, given[1]).names, ['exports', 'requests · pro', 'chat', 'requests']);
  assert.deepEqual(ruled.toggled(state(), given[0]).limits, [given[0].limit]);
  const text = rules({ name: 'rules.toml', text: book }, { ...tried, limits: ['fixed-window 9/day', ...tried.limits.slice(1)] }).text;
  assert.equal(text, book.replace('fixed-window 5/day', 'fixed-window 9/day'));
});

test('all mistakes of a file of rules are those that the command line prints', () => {
  const rule = 'name = "a"\nid = "a:{user"\nlimit = "fixed-window 5/fortnight"\nshadwo = true\n';
  for (const [name, text, count] of /** @type {[string, string, number][]} */ ([
    ['wrong.toml', `[[rules]]\n${rule}\n[[rules]]\nname = "a"\n`, 6], ['syntax.toml', '[[rules]]\nname = \nid = 5 5\n', 2],
    ['wrong.yaml', 'rules:\n- { name: é, limit: few }\n- { nam: b }\n', 5], ['wrong.json', '{"rules": [{"name": 5}]}', 3], ['syntax.json', '{"rules": [}', 1],
  ])) {
    const { text: written, mistakes } = rules({ name, text });
    assert.equal(written, null);
    assert.deepEqual(mistakes, checked(name, text));
    assert.equal(mistakes.length, count, mistakes.join('\n'));
    assert.ok(mistakes.every((line) => /:\d+:\d+: /.test(line)), mistakes.join('\n'));
  }
});

test('the answer of each preset is what there is to see', () => {
  assert.equal(PRESETS.length, 7);
  for (const preset of PRESETS) {
    const answer = asked(/** @type {object} */ (question(preset.state, null)));
    assert.ok(!('error' in JSON.parse(answer)), answer);
    const numbers = preset.answer.match(/\d[\d,]{2,}/g) ?? [];
    for (const number of numbers) assert.match(answer, new RegExp(`\\b${number.replaceAll(',', '')}\\b`), `${preset.name}: ${number}`);
  }
});

test('every state comes back from its URL', () => {
  const odd = state({
    view: 'change', limits: ['', 'a + b & c=d#', 'ü'], names: ['', 'login', ''], seed: '7', deny: '5%', windows: '1s, 1min',
    traffic: [traffic('poisson 5/s', { name: 'user' }), traffic('', { after: '2min' }), traffic('x')],
    callers: { wait: '', 'round-trip': '1ms', processes: '3', jitter: false }, clocks: { nodes: '8', skew: '', 'drift-ppm': '1' },
    kind: 'limits', counted: 'user|-', trial: true,
  });
  const log = state({ log: logOf('a&b.gz', { format: 'csv', by: 'user', key: 'x', trust: '10.0.0.0/8', ipv6_prefix: '56' }), toml: null });
  for (const one of [odd, log, state({ toml: 'limits = []\n# "é"' }), ...PRESETS.map(({ state }) => state)]) {
    assert.deepEqual(fromHash(`#${toHash(one)}`), { ...one, names: one.names.length ? one.names : [] });
  }
  assert.equal(fromHash(''), null);
});

test('an error is of the field that it comes from', () => {
  const right = state({ limits: ['sliding-log 5/s', 'sliding-log 6/s'], traffic: [traffic('poisson 5/s'), traffic('poisson 6/s')] });
  /** @param {Partial<import('../state.js').State>} parts @param {string} id */
  const wrong = (parts, id) => {
    const asks = { ...right, ...parts };
    const { error } = JSON.parse(asked(/** @type {object} */ (question(asks, null))));
    assert.ok(error?.message, id);
    assert.equal(wrongField(asks, error), id, JSON.stringify(error));
  };
  wrong({ limits: ['sliding-log 5/s', 'sliding "5/s'] }, 'limits[1]');
  wrong({ traffic: [traffic('poisson 5/s'), traffic('wavy\n"')] }, 'traffic[1].shape');
  wrong({ traffic: [traffic('poisson 5/s', { cost: 'ü' }), traffic('poisson 6/s')] }, 'traffic[0].cost');
  wrong({ traffic: [traffic('', { keys: '5' })] }, 'traffic[0].shape');
  wrong({ callers: { wait: 'long', 'round-trip': '', processes: '', jitter: true } }, 'callers.wait');
  wrong({ clocks: { nodes: '-1', skew: '', 'drift-ppm': '' } }, 'clocks.nodes');
  wrong({ seed: 'x' }, 'seed');
  wrong({ toml: 'limits = [5]' }, 'toml');
  wrong({ view: 'worst', limits: ['5/s'] }, 'limits[0]');
  wrong({ view: 'advise', deny: '1' }, 'deny_clients');
  wrong({ view: 'advise', windows: 'soon' }, 'windows');
});

test('the first file has at most 1,200,000 bytes; what 10,000 requests take is told', (context) => {
  assert.ok(statSync(new URL('explorer.wasm', DIST)).size <= 1_200_000);
  const toml = 'limits = ["token-bucket 100/min burst 20"]\ntraffic = { shape = "constant 100/s", duration = "100s", keys = 100 }';
  const times = Array.from({ length: 9 }, () => {
    const begun = performance.now();
    assert.equal(JSON.parse(asked({ verb: 'replay', toml })).requests, 10_000);
    return performance.now() - begun;
  });
  const best = Math.min(...times);
  context.diagnostic(`10,000 requests: ${best.toFixed(0)} ms`);
});
