// The limiter, from the installed package: it decides as the machines do, for many keys, on the caller's clock.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { folder, lockage } from './installed.js';

const { Limiter, LimitError, Machines } = lockage;
const START_MS = 1_763_697_600_000;

/** Each kind of limit, and its arguments in a call. */
const LIMITS = /** @type {[string, string[]][]} */ ([
  ['fixed-window 3/7ms', ['F1', '3', '7000']],
  ['sliding-window 3/7ms', ['S1', '3', '7000']],
  ['sliding-log 3/7ms', ['L1', '3', '7000']],
  ['token-bucket 3/7ms burst 5', ['T1', '3', '7000', '5']],
  ['token-bucket 2 every 7ms burst 5', ['I1', '2', '7000', '5']],
  ['leaky-bucket 3/7ms queue 5', ['Q1', '3', '7000', '5']],
  ['in-flight 3 lease 7ms', ['N1', '3', '7000']],
  ['fixed-window 3/7ms + token-bucket 3/7ms burst 5', ['C1', 'F1', '3', '7000', 'T1', '3', '7000', '5']],
]);

/** Numbers from 0 to 1 that are the same in each run. */
function chance() {
  let state = 7;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

test('each decision on three keys is that of the machine', async () => {
  const machines = await Machines.create();
  for (const [limit, words] of LIMITS) {
    const [next, seen] = [chance(), new Set()];
    let nowUs = START_MS * 1000;
    const limiter = await Limiter.create(limit, { clock: () => nowUs / 1000 });
    assert.equal(limiter.limit, limit);
    /** @type {Map<string, import('../js/machines.js').Value>} */
    const values = new Map();
    for (let number = 0; number < 500; number += 1) {
      // Back, too.
      nowUs += Math.floor(next() * 2200) - 100;
      const [key, cost] = [`user:${Math.floor(next() * 3)}`, 1 + Math.floor(next() * 6)];
      const wait = words[0] === 'Q1' ? [String(2 ** 53 - 1)] : [];
      const call = { script: 'limiter_acquire', keys: [key], arguments: ['', '0', '', ...words, ...wait, String(cost)] };
      const { outcome, states: [state] } = machines.run(call, [values.get(key) ?? null], nowUs);
      values.set(key, state && state.value);
      const { verdict, ...told } = /** @type {any} */ (outcome);
      const ms = (/** @type {number} */ micros) => Math.ceil(micros / 1000);
      const peeked = limiter.peek(key, cost);
      const decision = limiter.tryAcquire(key, cost);
      assert.deepEqual(decision, {
        admitted: verdict.is === 'allowed',
        limit: told.limit,
        remaining: told.remaining,
        retryAfterMs: verdict.is === 'never' ? null : ms(verdict.retryAfterUs ?? 0),
        resetAfterMs: ms(told.resetAfterUs),
        turnAfterMs: ms(told.turnAfterUs),
        blocked: false,
        binding: told.binding,
      }, `${limit}, request ${number}`);
      assert.equal(peeked.admitted, decision.admitted);
      seen.add(verdict.is);
    }
    assert.deepEqual([...seen].sort(), ['allowed', 'denied', 'never']);
  }
});

test('what was charged is given back, added to, blocked and forgotten', async () => {
  let ms = START_MS;
  const limiter = await Limiter.create('fixed-window 10/min', { clock: () => ms });
  assert.equal(limiter.tryAcquire('a', 6).remaining, 4);
  assert.deepEqual([limiter.refund('a', 2).amount, limiter.peek('a').remaining], [2, 6]);
  assert.deepEqual([limiter.penalty('a', 20).amount, limiter.peek('a').remaining], [16, 0]);
  assert.equal(limiter.peek('b').remaining, 10);
  assert.equal(limiter.takeUpTo('b', 99).amount, 10);
  assert.ok(limiter.reset('a') && !limiter.reset('a'));
  assert.equal(limiter.block('a', 1500).amount, 1500);
  const { admitted, blocked, retryAfterMs } = limiter.tryAcquire('a');
  assert.deepEqual([admitted, blocked, retryAfterMs], [false, true, 1500]);
  ms += 1499.999;
  assert.equal(limiter.tryAcquire('a').retryAfterMs, 1);
  assert.equal(limiter.unblock('a').amount, 1);
  assert.ok(limiter.tryAcquire('a').admitted);
});

test('memory is bounded by the keys that count, and keys are any text', async () => {
  let ms = START_MS;
  const limiter = await Limiter.create('fixed-window 1/s', { clock: () => ms });
  for (let number = 0; number < 200_000; number += 1) {
    ms += 0.1;
    assert.ok(limiter.tryAcquire(`ключ ${number}`).admitted);
  }
  // 10,000 count at a time, and are kept for a second longer.
  assert.ok(limiter.size < 60_000, String(limiter.size));
  ms += 5000;
  assert.equal(limiter.purge(), 0);
  assert.ok(limiter.tryAcquire('').admitted && !limiter.tryAcquire('').admitted);
  assert.equal(limiter.size, 1);
});

test('a bad limit, cost, key or clock is a typed error', async () => {
  const refused = async (/** @type {string} */ limit) => {
    try {
      await Limiter.create(limit);
    } catch (error) {
      assert.ok(error instanceof LimitError);
      return [error.name, error.column, error.message];
    }
    return null;
  };
  assert.deepEqual(await refused('token-bucket 100/fortnight'), ['LimitError', 18,
    '"token-bucket 100/fortnight", column 18: expected a duration such as 60s, 5min, 1h30m or day, found "fortnight"']);
  assert.equal((await refused('fixed-window 10/day in UTC'))?.[1], 21);
  assert.match(String(await refused('calendar-window 10/day in UTC')), /time zones/);
  const limiter = await Limiter.create('sliding-log 1/s');
  for (const cost of [0, -1, 0.5, NaN, Infinity]) assert.throws(() => limiter.tryAcquire('a', cost), RangeError);
  assert.throws(() => limiter.block('a', 0), /time to block is zero/);
  assert.throws(() => limiter.tryAcquire(/** @type {any} */ (1)), TypeError);
  const late = await Limiter.create('sliding-log 1/s', { clock: () => NaN });
  assert.throws(() => late.tryAcquire('a'), RangeError);
});

test('the first module has at most 150,000 bytes', () => {
  assert.ok(statSync(join(folder, 'node_modules/lockage/lockage.wasm')).size <= 150_000);
});

test('the programs of the README run, and the types say what they may do', () => {
  const readme = readFileSync(join(folder, 'node_modules/lockage/README.md'), 'utf8');
  assert.ok(readme.split(/\s+/).length <= 350);
  const programs = [...readme.matchAll(/```js\n([^]*?)```/g)].map(([, program]) => program);
  assert.equal(programs.length, 2);
  for (const [index, program] of programs.entries()) {
    const file = join(folder, `program-${index}.js`);
    writeFileSync(file, program);
    execFileSync(process.execPath, [file]);
  }
  copyFileSync(new URL('types.ts', import.meta.url), join(folder, 'types.ts'));
  const tsc = new URL('../../web/test/node_modules/.bin/tsc', import.meta.url).pathname;
  execFileSync(tsc, ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', join(folder, 'types.ts')], { stdio: 'inherit' });
});
