// Every vector holds for the machines in WebAssembly, byte for byte.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { lockage } from './installed.js';

const vectors = new URL('../../../vectors/', import.meta.url);
const machines = await lockage.Machines.create();

/** @param {any} text a string of a vector @returns {Uint8Array} */
const bytes = (text) => new Uint8Array(typeof text === 'string' ? Buffer.from(text) : Buffer.from(text.hex, 'hex'));
/** @param {any} value @returns {any} */
const inBytes = (value) => (Array.isArray(value) ? value.map(bytes) : bytes(value));
/** @param {any} reply @returns {any} */
function inReply(reply) {
  if (Array.isArray(reply)) return reply.map(inReply);
  return typeof reply === 'number' ? reply : bytes(reply);
}

const NEEDS_SLOW_PATH = { error: 'LOCKAGE_NEEDS_SLOW_PATH' };

let count = 0;
for (const name of readdirSync(vectors).filter((name) => name.endsWith('.json'))) {
  test(`${name}: commands are encoded, records written and replies read as the vectors say`, () => {
    const all = JSON.parse(readFileSync(new URL(name, vectors), 'utf8'));
    for (const [index, vector] of all.entries()) {
      const { script, keys, now_us: nowUs, state, next_state: nextState, reply } = vector;
      const about = `${name}:${index + 2}: ${vector.command}`;
      const call = { script, keys, arguments: vector.arguments.map(bytes) };
      count += 1;

      const encoded = machines.arguments(call);
      const isPacked = encoded.packed.length > 0 && call.arguments.length === 1;
      assert.deepEqual(isPacked ? encoded.packed : encoded.text, isPacked ? call.arguments : call.arguments.slice(2), about);

      if (reply.error) {
        // A fast script leaves it to the slow one, whose vector is the next.
        assert.deepEqual(reply, NEEDS_SLOW_PATH, about);
        assert.deepEqual(nextState, state, about);
        assert.deepEqual(all[index + 1].state, state, about);
        continue;
      }
      const values = state.map((/** @type {any} */ one) => one && inBytes(one.value));
      const { outcome, states } = machines.run(call, values, nowUs);
      assert.deepEqual(states.map((one) => one && one.value), nextState.map((/** @type {any} */ one) => one && inBytes(one.value)), about);
      assert.deepEqual(machines.outcome(call, inReply(reply)), outcome, about);
      // No record expires while it counts.
      for (const [at, one] of states.entries()) {
        const expiresAtMs = Math.floor(nowUs / 1000) + (nextState[at]?.expires_in_ms ?? 0);
        if (one) assert.ok(one.forgetAtUs <= (expiresAtMs + 1) * 1000, `${about}: ${one.forgetAtUs} ${expiresAtMs}`);
      }
    }
  });
}

test('a label may have quotes and backslashes', () => {
  const all = JSON.parse(readFileSync(new URL('lock.json', vectors), 'utf8'));
  const { script, keys, now_us: nowUs, state: [{ value }] } = all.find((/** @type {any} */ one) =>
    one.script === 'lock_inspect' && one.state[0]?.value.includes?.(' web-1/4711'));
  const call = { script, keys, arguments: ['', '0'] };
  const { outcome } = machines.run(call, [value.replace('web-1/4711', 'a"b\\\\c')], nowUs);
  assert.ok(JSON.stringify(outcome).includes(JSON.stringify('a"b\\\\c')), JSON.stringify(outcome));
});

test('there are vectors', () => assert.ok(count > 600, String(count)));

test('a call that no command makes is refused, and so is a value that is no record', () => {
  const call = { script: 'lock_inspect', keys: ['k'], arguments: ['', '0'] };
  assert.throws(() => machines.run({ ...call, script: 'lock_pick' }, [null], 0), /lock_pick: .*missing|no such script/);
  assert.throws(() => machines.run(call, ['user:1'], 0), RangeError);
  assert.throws(() => machines.outcome(call, 'x'), RangeError);
  const acquire = { script: 'limiter_acquire', keys: ['k'], arguments: ['', '0', '', 'T1', '1', '600000', '20', '1'] };
  const lock = machines.run({ script: 'latch_set', keys: ['k'], arguments: ['', '0', '0'.repeat(32), '1', '1000', '60000000'] }, [null], 5);
  assert.ok(lock.states[0]);
  assert.deepEqual(machines.run(acquire, [lock.states[0].value], 6).outcome, { refused: 'OtherKind' });
});
