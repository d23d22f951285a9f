// The page in headless Chromium. LOCKAGE_SCREENSHOTS=yes writes the pictures of the documents.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync, writeSync, closeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';
import { DIST, launch, open, serve } from './browser.js';

const SAMPLE = new URL('../../../sim/traces/sample.log', import.meta.url).pathname;
const FORMATS = new URL('../../../sim/traces/formats', import.meta.url).pathname;
const ROOT = new URL('../../../', import.meta.url).pathname;
const PROGRAM = process.env.LOCKAGE_SIM ?? join(ROOT, 'target/debug/lockage-sim');
const DOCS = new URL('../../../docs/', import.meta.url).pathname;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** @type {import('playwright-core').Browser} */
let browser;
/** @type {{url: string, close: () => void}} */
let server;
const scratch = mkdtempSync(join(tmpdir(), 'lockage-explorer-'));
before(async () => { [browser, server] = [await launch(), await serve()]; });
after(async () => {
  await browser?.close();
  server?.close();
  rmSync(scratch, { recursive: true, force: true });
});

/** @typedef {import('playwright-core').Page} Page */

/** @param {Page} page @param {RegExp} text */
const says = (page, text) => page.waitForFunction(([source]) => new RegExp(source).test(document.getElementById('said')?.textContent ?? ''), [text.source]);
/** @param {Page} page @param {string} id */
const field = (page, id) => page.locator(`[id="${id}"]`);

/** @param {Page} page @param {string} name @param {Buffer} bytes */
async function drop(page, name, bytes) {
  await page.evaluate(([name, text]) => {
    const [data, said] = [new DataTransfer(), document.getElementById('said')];
    if (said) said.textContent = '';
    data.items.add(new File([Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))], name));
    window.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  }, [name, bytes.toString('base64')]);
  await page.locator('#file-name').getByText(`${name}, `).waitFor();
}

/** @param {string} name @param {(opened: Awaited<ReturnType<typeof open>>) => Promise<void>} run @param {{hash?: string, url?: () => string, options?: import('playwright-core').BrowserContextOptions}} [how] */
function pageTest(name, run, { hash = '', url, options } = {}) {
  test(name, async () => {
    const opened = await open(browser, (url ? url() : server.url) + hash, options);
    try {
      await run(opened);
      assert.deepEqual(opened.problems, [], 'no error, and nothing against the policy');
    } finally {
      await opened.context.close();
    }
  });
}

pageTest('it answers while somebody types, and the URL has every state', async ({ page, context, requests }) => {
  const loaded = requests.length;
  await field(page, 'limits[0]').fill('fixed-window 30/min');
  await says(page, /fixed-window 30\/min admits 300 and denies 300/);
  await page.locator('#add-limit').click();
  await field(page, 'limits[3]').fill('leaky-bucket 1/s queue 5');
  await says(page, /leaky-bucket 1\/s queue 5 admits/);
  await page.getByText('Waiting callers, clocks and the seed').click();
  await page.getByLabel('Callers wait for their permits').check();
  // A caller that waits is admitted 50 times more.
  await says(page, /token-bucket 60\/min burst 60 admits 355/);
  const said = await page.locator('#said').textContent();
  const other = await open(browser, page.url());
  await says(other.page, /admits 355/);
  assert.equal(await other.page.locator('#said').textContent(), said);
  assert.equal(await field(other.page, 'limits[3]').inputValue(), 'leaky-bucket 1/s queue 5');
  await other.context.close();
  assert.equal(requests.length, loaded, 'no request after loading');
  await page.goBack();
  assert.equal(await page.getByLabel('Callers wait for their permits').isChecked(), false);
});

pageTest('what is wrong is told at its field, and goes when it is mended', async ({ page }) => {
  const limit = field(page, 'limits[1]');
  await limit.fill('sliding 5/s');
  await page.locator('#wrong').waitFor();
  assert.equal(await limit.getAttribute('aria-invalid'), 'true');
  assert.equal(await limit.getAttribute('aria-describedby'), 'wrong');
  assert.match(await page.locator('#wrong').innerText(), /expected a kind of limit/);
  assert.match(await page.locator('#said').innerText(), /^Limit 2: .*expected/s);
  await limit.fill('sliding-log 5/s');
  await says(page, /sliding-log 5\/s admits/);
  assert.equal(await page.locator('[aria-invalid]').count(), 0);
  await field(page, 'from-toml').check();
  await field(page, 'toml').fill('limits = ["sliding-log 5/s"]\n[traffic]\nshape = "wavy"');
  await page.locator('#wrong').waitFor();
  assert.match(await page.locator('#wrong').innerText(), /^Line 3: /);
  await field(page, 'toml').fill('limits = ["sliding-log 5/s"]\n[traffic]\nshape = "constant 7/s"\nduration = "10s"');
  await says(page, /sliding-log 5\/s admits 50 and denies 20/);
  await field(page, 'from-form').check();
  await page.waitForFunction(() => /** @type {any} */ (document.getElementById('traffic[0].shape'))?.value === 'constant 7/s');
});

pageTest('a log is dropped, also a packed one, and never leaves the page', async ({ page, requests }) => {
  const loaded = requests.length;
  const log = readFileSync(SAMPLE);
  for (const [name, bytes] of /** @type {[string, Buffer][]} */ ([['sample.log', log], ['sample.log.gz', gzipSync(log)]])) {
    await drop(page, name, bytes);
    await says(page, /600 requests of 35 keys/);
  }
  // A sample of each format has its five requests of two clients; one has two proxies in the place of clients.
  for (const name of readdirSync(FORMATS)) {
    await drop(page, name, readFileSync(join(FORMATS, name)));
    await says(page, /5 requests of 2 keys/);
  }
  await drop(page, 'sample.log.gz', gzipSync(log));
  await says(page, /600 requests of 35 keys/);
  await field(page, 'by').selectOption('user');
  await says(page, /600 requests of (?!35)/);
  await page.getByRole('tab', { name: 'Advice' }).click();
  await says(page, /^Deploy token-bucket .* fewer than 1% of the clients/);
  await page.getByRole('button', { name: /^Use / }).first().click();
  await says(page, /admits/);
  assert.equal(requests.length, loaded);
  await page.reload();
  await page.locator('#shown').getByText('Drop sample.log.gz here again').waitFor();
});

pageTest('100 MB are read while the page answers, and can be cancelled', async ({ page }) => {
  const path = join(scratch, 'large.log');
  const lines = readFileSync(SAMPLE);
  const large = openSync(path, 'w');
  for (let size = 0; size < 100e6; size += lines.length) writeSync(large, lines);
  closeSync(large);
  await field(page, 'from-log').check();
  await field(page, 'file').setInputFiles(path);
  await page.locator('#progress').waitFor();
  await page.waitForFunction(() => Number(document.getElementById('bar')?.getAttribute('value')) > 0.02);
  const frames = await page.evaluate(async () => {
    let frames = 0;
    while (Number(document.getElementById('bar')?.getAttribute('value')) < 0.15) {
      await new Promise((next) => requestAnimationFrame(next));
      frames += 1;
    }
    return frames;
  });
  assert.ok(frames > 3, `the page showed ${frames} frames meanwhile`);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.locator('#progress').waitFor({ state: 'hidden' });
  await says(page, /Cancelled/);
  await field(page, 'from-form').check();
  await says(page, /admits/);
  writeFileSync(path, '');
});

pageTest('it is used by the keyboard alone', async ({ page }) => {
  /** @param {string} key @param {() => boolean} done */
  const press = async (key, done) => {
    for (let i = 0; i < 80; i += 1) {
      await page.keyboard.press(key);
      if (await page.evaluate(done)) return;
    }
    assert.fail(`never reached by ${key}`);
  };
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.className), 'skip');
  await press('Tab', () => document.activeElement?.id === 'preset-scraper');
  await page.keyboard.press('Enter');
  await says(page, /denies 5,400/);
  await press('Tab', () => document.activeElement?.id === 'limits[0]');
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.type('sliding-log 1/s');
  await says(page, /sliding-log 1\/s admits/);
  await press('Tab', () => document.activeElement?.id === 'view-replay');
  await page.keyboard.press('ArrowRight');
  await says(page, /in place of sliding-log 1\/s would newly deny/);
  await page.keyboard.press('ArrowLeft');
  await says(page, /admits/);
  await press('Tab', () => document.activeElement?.matches('svg.chart') ?? false);
  await page.keyboard.press('End');
  assert.match(await page.evaluate(() => document.activeElement?.parentElement?.querySelector('.told')?.textContent ?? ''), /admitted, .* denied$/);
  await press('Tab', () => document.activeElement?.matches('.behind > summary') ?? false);
  await page.keyboard.press('Enter');
  await page.locator('.behind table').first().waitFor();
});

pageTest('a change needs a second limit', async ({ page }) => {
  await says(page, /A change needs a second limit/);
  await page.locator('#add-limit').click();
  await says(page, /in place of sliding-log 5\/s would newly deny/);
}, { hash: '#view=change&limit=sliding-log+5/s&shape=poisson+5/s' });

/** Saves the file that is written. @param {Page} page @returns {Promise<[string, string]>} its name and text */
async function saved(page) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#save-file').click()]);
  return [download.suggestedFilename(), readFileSync(await download.path(), 'utf8')];
}

pageTest('what was explored can be deployed, as rules or as limits by name', async ({ page, requests }) => {
  const loaded = requests.length;
  await page.getByText('The file that a program reads').click();
  await field(page, 'name-0').fill('log in');
  await page.getByText('[[rules]]\nname = "log_in"').waitFor();
  await field(page, 'counted').fill('user');
  const [name, text] = await saved(page);
  assert.equal(name, 'rules.toml');
  assert.match(text, /^\[\[rules\]\]\nname = "log_in"\nid = "log_in:\{user\}"\nlimit = "fixed-window 60\/min"\n\n\[\[rules\]\]\n/);
  await field(page, 'counted').fill('user}');
  await page.locator('#mistakes li').first().waitFor();
  assert.match(await page.locator('#mistakes li').first().innerText(), /^rules\.toml:3:\d+: /);
  assert.equal(await page.locator('#save-file').isVisible(), false, 'a file with mistakes is not saved');
  await page.getByLabel('Limits by name').check();
  assert.equal(await page.locator('#mistakes li').count(), 0);
  const [other, limits] = await saved(page);
  assert.equal(other, 'limits.toml');
  assert.match(limits, /^log_in = "fixed-window 60\/min"\nlimit_2 = /);
  assert.deepEqual(requests.slice(loaded).map((url) => new URL(url).pathname).filter((path) => path !== '/worker.js' && path !== '/core.js'), []);
});

const RULES = readFileSync(new URL('../../../rules/files/rules.toml', import.meta.url), 'utf8');

/** @param {Page} page @param {string} name @param {string} text */
const openRules = (page, name, text) => field(page, 'rules').setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });

pageTest('limits of a file of rules are tried, changed, and saved in it', async ({ page }) => {
  await page.getByText('Limits of a file of rules').click();
  await openRules(page, 'site.toml', RULES);
  await page.getByText('site.toml has 4 limits to try').waitFor();
  await says(page, /token-bucket 600\/min burst 100 admits/);
  assert.equal(await field(page, 'limits[0]').inputValue(), 'fixed-window 5/day');
  await page.getByRole('checkbox', { name: /^exports/ }).uncheck();
  await page.getByText('Limit 1, requests', { exact: true }).waitFor();
  await field(page, 'limits[0]').fill('token-bucket 77/min burst 7');
  await says(page, /token-bucket 77\/min burst 7 admits/);
  await page.getByText('The file that a program reads').click();
  await page.locator('#written').getByText('requests = "token-bucket 77/min burst 7"').waitFor();
  assert.deepEqual(await saved(page), ['site.toml', RULES.replace('60/min burst 10', '77/min burst 7')]);
  const context = await page.evaluate(`${AXE}; axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes[0].html]))`);
  assert.deepEqual(context, []);
  const isBeside = () => page.evaluate(() => Number(document.querySelector('#deploy')?.getBoundingClientRect().right) <= Number(document.querySelector('#results')?.getBoundingClientRect().left));
  assert.ok(await isBeside(), 'long lines stay within the form');
  await page.getByRole('button', { name: 'Close the file' }).click();
  await page.locator('#written').getByText('[[rules]]').waitFor();
  assert.match((await saved(page))[1], /^\[\[rules\]\]\nname = "requests"\nid = "requests:\{address\}"\nlimit = "token-bucket 77/);
});

pageTest('a file of rules shows all its mistakes, and is read once it is mended', async ({ page }) => {
  const wrong = RULES.replace('5/day', '5/fortnight').replace('shadow', 'shadwo');
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], 'rules.toml'));
    window.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
  }, wrong);
  await page.locator('#rules-mistakes li').first().waitFor();
  assert.deepEqual(await page.locator('#rules-mistakes li').allInnerTexts(), [
    'rules.toml:3:27: expected a duration such as 60s, 5min, 1h30m or day, found "fortnight"',
    'rules.toml:40:1: unknown key `shadwo` of a rule: did you mean `shadow`?',
  ]);
  await openRules(page, 'rules.yaml', 'rules:\n- { name: a, id: all, limit: fixed-window 7/s }\n');
  await says(page, /fixed-window 7\/s admits/);
  assert.equal(await page.locator('#rules-mistakes li').count(), 0);
  await field(page, 'rules').setInputFiles({ name: 'rules.json', mimeType: 'text/plain', buffer: Buffer.from([0xff, 0xfe]) });
  await page.getByText('rules.json: not UTF-8: expected text').waitFor();
});

pageTest('the shipped scripts run too, and agree', async ({ page, requests }) => {
  const loaded = requests.length;
  await page.getByRole('button', { name: 'Run the shipped scripts too' }).click();
  await says(page, /made 1,800 decisions, and every field of each agrees/);
  assert.equal(await page.locator('#verified tbody tr').count(), 3);
  assert.deepEqual(requests.slice(loaded).map((url) => new URL(url).pathname).filter((path) => path !== '/worker.js' && path !== '/core.js'), ['/scripts.wasm']);
});

pageTest('windows of a calendar load the time zones, once', async ({ page, requests }) => {
  const zones = () => requests.filter((url) => url.endsWith('zones.bin')).length;
  assert.equal(zones(), 0);
  for (const limit of ['calendar-window 100/day in Europe/Berlin', 'calendar-window 90/day']) {
    await field(page, 'limits[0]').fill(limit);
    await says(page, new RegExp(`${limit.replaceAll('/', '\\/')} admits`));
  }
  assert.equal(zones(), 1);
});

pageTest('one file opens from disk, with all there is', async ({ page, requests }) => {
  assert.deepEqual(requests, [page.url()]);
  await field(page, 'limits[0]').fill('calendar-window 100/day in Europe/Berlin');
  await says(page, /calendar-window 100\/day in Europe\/Berlin admits/);
  await page.getByRole('button', { name: 'Run the shipped scripts too' }).click();
  await says(page, /every field of each agrees/);
  await page.getByRole('tab', { name: 'Worst trace' }).click();
  await says(page, /within/);
  assert.equal(requests.length, 1);
}, { url: () => new URL('explorer.html', DIST).href });

for (const [name, options, hash] of /** @type {[string, import('playwright-core').BrowserContextOptions, string][]} */ ([
  ['light', {}, ''],
  ['dark', { colorScheme: 'dark' }, ''],
  ['phone', { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true }, ''],
])) {
  pageTest(`axe finds nothing, and nothing is wider than the page: ${name}`, async ({ page }) => {
    const picture = () => page.screenshot({ path: join(DOCS, `explorer-${name}.png`), scale: 'css' });
    await page.locator('#preset-scraper').click();
    await says(page, /denies 5,400/);
    // A transition is over by then.
    await page.waitForFunction(() => !document.getElementById('shown')?.getAnimations().length);
    if (process.env.LOCKAGE_SCREENSHOTS) await picture();
    for (const view of ['Over time', 'A change, shadowed', 'Worst trace', 'Advice']) {
      await page.getByRole('tab', { name: view }).click();
      await page.locator('#shown:not(.old) .card').first().waitFor();
      await page.waitForFunction((view) => document.getElementById('shown')?.getAttribute('aria-labelledby') === document.querySelector(`[role=tab][aria-selected=true]`)?.id && view, view);
      await page.evaluate(() => document.querySelectorAll('details:not(.behind), .card:first-of-type .behind').forEach((details) => { /** @type {HTMLDetailsElement} */ (details).open = true; }));
      const context = await page.evaluate(`${AXE}; axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes[0].html]))`);
      assert.deepEqual(context, [], view);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} fits`);
    }
  }, { options, hash });
}

if (process.env.LOCKAGE_SCREENSHOTS) {
  pageTest('pictures of two questions, for the book', async ({ page }) => {
    for (const [question, answer] of /** @type {[string, RegExp][]} */ ([['boundary', /fixed-window 60\/min/], ['llm', /fixed-window 10000\/min/]])) {
      await page.locator(`#preset-${question}`).click();
      await says(page, answer);
      await page.waitForFunction(() => !document.getElementById('shown')?.getAnimations().length);
      const shown = await page.locator('#shown').boundingBox();
      assert.ok(shown);
      // The limits side by side, and how the first one fares.
      const clip = { ...shown, y: shown.y + await page.evaluate(() => scrollY), height: 605 };
      await page.screenshot({ path: join(DOCS, `explorer-${question}.png`), scale: 'css', fullPage: true, clip });
    }
  });
  test('pictures of a terminal, and of the page that --html writes, for the book', async () => {
    const page = await browser.newPage({ viewport: { width: 1120, height: 1000 } });
    const replay = (/** @type {string[]} */ ...more) =>
      execFileSync(PROGRAM, ['replay', 'sim/traces/sample.log', '--limit', 'token-bucket 1/s burst 20', ...more], { cwd: ROOT, encoding: 'utf8' });
    await page.setContent('<pre style="display: inline-block; margin: 0; padding: 16px; font: 15px/1.2 DejaVu Sans Mono, monospace; background: #1d1f21; color: #e0e0e0"></pre>');
    const prompt = '$ lockage-sim replay sim/traces/sample.log --limit "token-bucket 1/s burst 20"\n';
    await page.locator('pre').evaluate((pre, text) => { pre.textContent = text; }, prompt + replay());
    await page.locator('pre').screenshot({ path: join(DOCS, 'terminal.png') });
    const report = join(scratch, 'report.html');
    replay('--html', report);
    await page.goto(pathToFileURL(report).href);
    const heading = await page.getByRole('heading', { name: 'Denied most' }).boundingBox();
    assert.ok(heading);
    await page.screenshot({ path: join(DOCS, 'report.png'), fullPage: true, clip: { x: 0, y: heading.y - 20, width: 1120, height: 500 } });
    await page.close();
  });
}
