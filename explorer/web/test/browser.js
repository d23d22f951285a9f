// A browser and a server for the tests.

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';
import { chromium } from 'playwright-core';

export const DIST = new URL('../../dist/', import.meta.url);

const TYPES = /** @type {Record<string, string>} */ ({
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm', '.bin': 'application/octet-stream',
});

/** Serves a folder on a free port. @param {URL} [folder] @returns {Promise<{url: string, close: () => void}>} */
export async function serve(folder = DIST) {
  const server = createServer(async (request, response) => {
    const name = new URL(request.url ?? '/', 'http://x').pathname.slice(1) || 'index.html';
    try {
      const file = await readFile(new URL(name, folder));
      response.writeHead(200, { 'content-type': TYPES[extname(name)] ?? 'text/plain' }).end(file);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', () => ready(null)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${port}/`, close: () => server.close() };
}

/** @returns the browser that the check installed */
export const launch = () => chromium.launch({
  executablePath: process.env.LOCKAGE_CHROMIUM ?? '/usr/bin/chromium',
  // Root has no sandbox to put it in.
  args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
});

/**
 * Opens the page, and collects what must not be: errors, and requests after loading.
 * @param {import('playwright-core').Browser} browser @param {string} url @param {import('playwright-core').BrowserContextOptions} [options]
 */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  /** @type {string[]} */
  const problems = [];
  /** @type {string[]} */
  const requests = [];
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) problems.push(message.text()); });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('request', (request) => { if (!request.url().startsWith('blob:') && !request.url().startsWith('data:')) requests.push(request.url()); });
  await page.goto(url);
  await page.locator('#shown .card, #shown .headline').first().waitFor();
  return { page, context, problems, requests };
}
