// The package in a browser: in a page, and in a worker of it.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { launch, serve } from '../../web/test/browser.js';
import { folder } from './installed.js';

const server = await serve(pathToFileURL(join(folder, 'node_modules/lockage/')));
const browser = await launch();
after(async () => { await browser.close(); server.close(); });

const PROGRAM = `
  const { Limiter } = await import('${server.url}limiter.js');
  const limiter = await Limiter.create('token-bucket 1/min burst 2');
  const told = [1, 2, 3].map(() => limiter.tryAcquire('user:1'));
  return told.map(({ admitted, remaining }) => [admitted, remaining]);`;
const EXPECTED = [[true, 1], [true, 0], [false, 0]];

test('a page limits, and a worker does', async () => {
  const page = await browser.newPage();
  await page.goto(`${server.url}package.json`);
  assert.deepEqual(await page.evaluate(`(async () => {${PROGRAM}})()`), EXPECTED);
  const inWorker = `(async () => {${PROGRAM}})().then(postMessage)`;
  const told = await page.evaluate(async (program) => {
    const file = URL.createObjectURL(new Blob([program], { type: 'text/javascript' }));
    const worker = new Worker(file, { type: 'module' });
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(message));
    });
  }, inWorker);
  assert.deepEqual(told, EXPECTED);
});
