#!/usr/bin/env node
// Runs the scripts on a real server as the vectors say, and compares what comes of it.
//
// usage: run.mjs [HOST:PORT]      default 127.0.0.1:6379; Redis 7.0 or later, or Valkey
//
// It needs scripts/ and clock.lua beside it. It writes and deletes only keys that begin with lockage:{vector}. It exits
// with 1 where anything differs, each with its file, line and field.

import { readFileSync, readdirSync } from 'node:fs';
import { createConnection } from 'node:net';

const FOLDER = new URL('.', import.meta.url);
// The time that expiries count from: see clock.lua.
const START_MS = 4102444800000;

/** A connection that speaks RESP2. A string has a character per byte (latin1). */
class Server {
  constructor(host, port) {
    this.socket = createConnection({ host, port });
    this.chunks = this.socket[Symbol.asyncIterator]();
    this.unread = '';
  }

  /** Sends a command and returns its reply: an error of a script as {error: its first word}. */
  async send(...words) {
    const parts = words.map(String).map((word) => `$${word.length}\r\n${word}\r\n`);
    this.socket.write(`*${words.length}\r\n${parts.join('')}`, 'latin1');
    const reply = await this.reply();
    if (reply?.error && words[0] !== 'EVALSHA') throw new Error(`${words[0]}: the server replies ${reply.error}`);
    return reply;
  }

  async reply() {
    while (!this.unread.includes('\r\n')) await this.receive();
    const line = this.take(this.unread.indexOf('\r\n'));
    const [kind, text] = [line[0], line.slice(1)];
    if (kind === '-') return { error: text.split(' ')[0] };
    if (kind === ':') return Number(text);
    if (kind === '$') {
      if (Number(text) < 0) return null;
      while (this.unread.length < Number(text) + 2) await this.receive();
      return this.take(Number(text));
    }
    if (kind !== '*') return text;
    const elements = [];
    while (elements.length < Number(text)) elements.push(await this.reply());
    return elements;
  }

  async receive() {
    const { value, done } = await this.chunks.next();
    if (done) throw new Error('the server closed the connection');
    this.unread += value.toString('latin1');
  }

  /** So many characters, without the end of line behind them. */
  take(length) {
    const taken = this.unread.slice(0, length);
    this.unread = this.unread.slice(length + 2);
    return taken;
  }

  /** Makes the key hold this, or nothing. */
  async put(key, state) {
    await this.send('DEL', key);
    if (!state) return;
    const expiresAtMs = START_MS + state.expires_in_ms;
    if (Array.isArray(state.value)) {
      await this.send('RPUSH', key, ...state.value);
      await this.send('PEXPIREAT', key, expiresAtMs);
    } else {
      await this.send('SET', key, state.value, 'PXAT', expiresAtMs);
    }
  }

  /** What the key holds, and when it expires. */
  async state(key) {
    const kind = await this.send('TYPE', key);
    if (kind === 'none') return null;
    const value = await (kind === 'list' ? this.send('LRANGE', key, 0, -1) : this.send('GET', key));
    return { expires_in_ms: (await this.send('PEXPIRETIME', key)) - START_MS, value };
  }
}

/** What stands for it in a vector, where each string is text or {hex: ...}. */
function inBytes(value) {
  if (Array.isArray(value)) return value.map(inBytes);
  if (value?.hex !== undefined) return Buffer.from(value.hex, 'hex').toString('latin1');
  if (value?.value !== undefined) return { expires_in_ms: value.expires_in_ms, value: inBytes(value.value) };
  return value;
}

/** Runs a vector, and returns of each field that differs its name, what is there and what should be, in JSON. */
async function differences(server, digest, vector) {
  const { keys } = vector;
  for (const [at, state] of inBytes(vector.state).entries()) await server.put(keys[at], state);
  const words = [...keys, ...inBytes(vector.arguments), vector.now_us];
  const seen = { reply: await server.send('EVALSHA', digest, keys.length, ...words), next_state: [] };
  for (const key of keys) seen.next_state.push(await server.state(key));
  await server.send('DEL', ...keys);
  const is = (field) => JSON.stringify(seen[field]);
  const expected = (field) => JSON.stringify(inBytes(vector[field]));
  const fields = Object.keys(seen).filter((field) => is(field) !== expected(field));
  return fields.map((field) => [field, is(field), expected(field)]);
}

process.on('uncaughtException', (error) => {
  console.error(`run.mjs: ${error.message}`);
  process.exit(1);
});
const [, host, port] = /^(.+):(\d+)$/.exec(process.argv[2] ?? '127.0.0.1:6379') ?? [];
if (!host || process.argv.length > 3) {
  console.error('usage: run.mjs [HOST:PORT]');
  process.exit(2);
}
const read = (name) => readFileSync(new URL(name, FOLDER), 'utf8');
const [server, digests, clock] = [new Server(host, Number(port)), new Map(), read('clock.lua')];
let [count, differ] = [0, false];
for (const name of readdirSync(FOLDER).filter((name) => name.endsWith('.json')).sort()) {
  for (const [at, vector] of JSON.parse(read(name)).entries()) {
    const { script } = vector;
    if (!digests.has(script)) {
      digests.set(script, await server.send('SCRIPT', 'LOAD', clock + read(`scripts/${script}.lua`)));
    }
    for (const [field, is, expected] of await differences(server, digests.get(script), vector)) {
      // One vector a line, behind a bracket of its own.
      console.log(`${name}:${at + 2}: ${field} of ${script}: ${is}, and not ${expected}`);
      differ = true;
    }
    count += 1;
  }
}
if (!differ) console.log(`${count} vectors of ${digests.size} scripts hold`);
server.socket.destroy();
process.exitCode = Number(differ);
