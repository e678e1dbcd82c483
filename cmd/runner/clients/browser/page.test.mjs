// Tests of the page in Chromium: every control, and what happens when something breaks. BROWSER names the browser and
// SITE the program that serves invented models. Screenshots of the page's states are left in the folder SHOTS, to be
// looked at.
import { after, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = process.env.SHOTS ?? fileURLToPath(new URL('../../../../.cache/screenshots', import.meta.url));
// On a machine that does other things too, times say little. STRICT=1 tests the limits that hold on an idle one.
const strict = process.env.STRICT === '1';
const folder = mkdtempSync(join(tmpdir(), 'runner-page-'));
mkdirSync(shots, { recursive: true });

// Site is a server with invented models.
class Site {
  static async start(...flags) {
    const s = new Site();
    s.process = spawn(process.env.SITE, flags, { stdio: ['pipe', 'pipe', 'inherit'] });
    s.ended = new Promise((resolve) => s.process.once('exit', resolve));
    s.url = await new Promise((resolve, reject) => {
      s.process.stdout.once('data', (text) => resolve(String(text).trim()));
      s.ended.then((status) => reject(new Error(`the site ended with ${status}`)));
    });
    s.port = new URL(s.url).port;
    return s;
  }

  async stop() {
    this.process.stdin.end();
    await this.ended;
  }

  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }
}

let site;
let browser;
let context;
let page;
let complaints;
const report = []; // what axe found, and what the policy refused

before(async () => {
  site = await Site.start();
  browser = await chromium.launch({ executablePath: process.env.BROWSER, args: ['--no-sandbox'] });
});

after(async () => {
  writeFileSync(join(shots, 'report.json'), JSON.stringify(report, null, 2) + '\n');
  await browser?.close();
  await site?.stop();
  rmSync(folder, { recursive: true });
});

// open gives a page without anything stored. It collects errors, and requests that leave the server.
async function open(url = site.url, options = {}) {
  await context?.close();
  context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  complaints = [];
  context.on('request', (r) => {
    if (!r.url().startsWith(url) && !r.url().startsWith('blob:')) complaints.push(`a request to ${r.url()}`);
  });
  page = await fresh();
  await page.goto(url);
  return page;
}

async function fresh() {
  const p = await context.newPage();
  p.setDefaultTimeout(30000); // the machine may be busy
  p.on('pageerror', (e) => complaints.push(`an error: ${e.message}`));
  p.on('dialog', (d) => d.accept());
  return p;
}

beforeEach(() => open());

const answer = (n = -1) => page.locator('.message.assistant').nth(n);
const figures = (n = -1) => answer(n).locator('.figures');

async function say(text, wait = true) {
  await page.fill('#message', text);
  await page.press('#message', 'Enter');
  if (wait) await figures().waitFor();
}

async function pick(model) {
  await page.selectOption('#model', model);
}

const shot = (name) => page.screenshot({ path: join(shots, `${name}.png`), animations: 'disabled', caret: 'hide' });

function calm() {
  assert.deepEqual(complaints, []);
}

async function check(name) {
  const found = await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    const { violations } = await window.axe.run();
    return violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(', ')}`);
  }, axe);
  report.push({ axe: name, url: page.url(), violations: found });
  assert.deepEqual(found, [], name);
}

// checkAll checks a state of the page wide and narrow, light and dark.
async function checkAll(name) {
  const size = page.viewportSize();
  for (const [width, height] of [[1600, 900], [360, 740]]) {
    for (const colorScheme of ['light', 'dark']) {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme });
      const fits = await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
      assert.ok(fits, `${name} at ${width} is too wide`);
      await check(`${name}, ${width}, ${colorScheme}`);
    }
  }
  await page.emulateMedia({ colorScheme: null });
  await page.setViewportSize(size);
}

test('browsers get the page at /, and other clients what they got before', async () => {
  const html = await fetch(site.url + '/', { headers: { Accept: 'text/html' } });
  assert.match(await html.text(), /<!doctype html>/i);
  assert.match(html.headers.get('vary'), /Accept/);
  const policy = html.headers.get('content-security-policy');
  assert.match(policy, /default-src 'none'; script-src 'self';/);
  assert.doesNotMatch(policy, /unsafe/);
  const other = await fetch(site.url + '/', { headers: { Accept: '*/*' } });
  assert.equal(await other.text(), 'Ollama is running');
  assert.match(other.headers.get('vary'), /Accept/);
  await page.locator('.empty').waitFor();
  calm();
});

test('the policy refuses scripts that get into the page', async () => {
  await page.locator('.empty').waitFor();
  await page.evaluate(() => {
    window.refused = [];
    document.addEventListener('securitypolicyviolation', (e) => window.refused.push(e.effectiveDirective));
    // What a test evaluates may do more than the page, but what it leaves behind may not.
    setTimeout(() => {
      try {
        (0, eval)('window.harmed = 1');
      } catch {
        /* that is wanted */
      }
      const script = document.createElement('script');
      try {
        script.text = 'window.harmed = 2';
        document.body.append(script);
      } catch {
        /* Trusted Types refuse the text */
      }
      const button = document.createElement('button');
      try {
        button.setAttribute('onclick', 'window.harmed = 3');
      } catch {
        /* the same */
      }
      document.body.append(button);
      button.click();
      try {
        document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="window.harmed = 4">');
      } catch {
        /* the same */
      }
      const style = document.createElement('img');
      style.src = 'https://example.org/picture.png';
      document.body.append(style);
      window.tried = true;
    }, 0);
  });
  await page.waitForFunction(() => window.tried && window.refused.includes('img-src'));
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  const refused = await page.evaluate(() => window.refused);
  report.push({ policy: refused });
  // Trusted Types refuse eval, the script's text, the handler and the HTML before other rules have to.
  assert.deepEqual(refused, [...Array(4).fill('require-trusted-types-for'), 'img-src']);
});

test('the page is small and paints at once', async () => {
  const files = readdirSync(new URL('../../../../server/web/page', import.meta.url));
  const names = ['', ...files.filter((n) => n !== 'index.html').map((n) => 'web/' + n)];
  assert.ok(names.includes('web/main.js'));
  let bytes = 0;
  for (const name of names) {
    const r = await fetch(`${site.url}/${name}`, { headers: { Accept: 'text/html' } });
    assert.equal(r.status, 200, name);
    bytes += gzipSync(Buffer.from(await r.arrayBuffer())).length;
  }
  assert.ok(bytes < 150 << 10, `${bytes} bytes`);
  const paints = [];
  for (let i = 0; i < 3; i++) {
    await page.reload();
    await page.locator('.empty').waitFor();
    paints.push(await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime));
  }
  console.log(`${bytes} bytes compressed, first paint after ${paints.map((p) => p?.toFixed(0)).join(', ')} ms`);
  assert.ok(Math.min(...paints) < (strict ? 100 : 1000), `first paints after ${paints} ms`);
});

test('an answer streams, with its reasoning folded above it', async () => {
  await say('styled', false);
  await answer().locator('.thoughts.busy summary').waitFor(); // while it streams
  assert.equal(await answer().locator('details.thoughts').getAttribute('open'), null);
  await answer().locator('.text h2').waitFor();
  // The clock of the answer goes away with the button that stops it.
  const clock = await page.evaluate(async () => {
    const byId = (id) => document.getElementById(id);
    const running = byId('live').textContent;
    while (byId('send').hidden) await new Promise(requestAnimationFrame);
    return [running, byId('live').textContent];
  });
  assert.match(clock[0], /^\d+\.\d s$/);
  assert.equal(clock[1], '');
  await figures().waitFor();
  assert.match(
    await figures().textContent(),
    /\d+ tokens \(\d+ reasoning\) · [\d.]+ tokens\/s · first token [\d.]+ s · prompt \d+/,
  );
  assert.equal(await answer().locator('.text pre .k').first().textContent(), 'def');
  assert.equal(await answer().locator('.text td').first().textContent(), 'units');
  await answer().locator('details.thoughts summary').click();
  assert.match(await answer().locator('details.thoughts').textContent(), /So it is 42/);
  await page.reload();
  await answer().locator('.text td').first().waitFor(); // rendered again, from the text
  assert.match(await figures().textContent(), /tokens/);
  calm();
});

test('a message that is sent before the page has read its conversations is answered', async () => {
  await page.addInitScript(() => {
    const { set, ...rest } = Object.getOwnPropertyDescriptor(IDBRequest.prototype, 'onsuccess');
    const late = (f) => (e) => setTimeout(() => f(e), 500);
    Object.defineProperty(IDBRequest.prototype, 'onsuccess', { ...rest, set(f) { set.call(this, late(f)); } });
  });
  await page.goto(site.url, { waitUntil: 'domcontentloaded' });
  await page.locator('.empty').waitFor({ state: 'detached' });
  await page.selectOption('#effort', 'low');
  await say('styled');
  assert.match(await answer().textContent(), /The sum is 42/);
  calm();
});

test('the visibility is the one that was chosen', async () => {
  await pick('fast');
  await page.selectOption('#visibility', 'none');
  await say('styled');
  assert.match(await answer().locator('.thoughts').textContent(), /^Reasoning \(hidden\)$/);
  await page.selectOption('#visibility', 'summary');
  await say('styled');
  assert.match(await answer().textContent(), /Summary of the reasoning.*It adds the digits.*Adding/s);
  assert.doesNotMatch(await page.locator('#log').textContent(), /So it is 42/);
  calm();
});

test('a server that hides the reasoning says so', async () => {
  const capped = await Site.start('-most', 'none');
  try {
    await open(capped.url);
    await page.locator('#visibility option:disabled').nth(1).waitFor({ state: 'attached' });
    assert.equal(await page.locator('#visibility').inputValue(), 'none');
    await say('styled');
    assert.match(await answer().locator('.thoughts').textContent(), /hidden by the server/);
    calm();
  } finally {
    await capped.stop();
  }
});

test('stop, regenerate, edit', async () => {
  await say('endless', false);
  await answer().locator('.text', { hasText: 'word word word' }).first().waitFor();
  await page.click('#stop');
  await answer().getByText('Stopped.').waitFor();
  assert.match(await answer().textContent(), /word word/);
  await answer().getByRole('button', { name: 'Regenerate' }).click();
  await page.locator('#stop').waitFor();
  await page.click('#stop');
  await answer().getByText('Stopped.').waitFor();
  assert.equal(await page.locator('.message').count(), 2);
  await page.locator('.message.user').getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Edit the message').fill('styled');
  await page.getByRole('button', { name: 'Send again' }).click();
  await figures().waitFor();
  assert.equal(await page.locator('.message').count(), 2);
  assert.match(await answer().textContent(), /The sum is 42/);
  calm();
});

test('several conversations, exported and imported', async () => {
  await pick('fast');
  await say('styled');
  await page.click('#new');
  await say('weather? no, hello');
  assert.equal(await page.locator('.conversations li').count(), 2);
  await page.locator('.conversations .open', { hasText: 'styled' }).click();
  await answer().getByText('The sum is').waitFor();
  const download = page.waitForEvent('download');
  await page.click('#export');
  const file = join(folder, 'export.json');
  await (await download).saveAs(file);
  const kept = JSON.parse(readFileSync(file, 'utf8'));
  assert.equal(kept.conversations.length, 2);
  await page.locator('.conversations .remove').first().click();
  await page.locator('.conversations li').nth(1).waitFor({ state: 'detached' });
  kept.conversations[0].messages.push({
    role: 'assistant',
    parts: [{ kind: 'answer', text: '<img src=x onerror="window.harmed=1">' }],
  });
  writeFileSync(file, JSON.stringify(kept));
  await page.setInputFiles('#import-file', file);
  await page.locator('.conversations li').nth(2).waitFor();
  for (const open of await page.locator('.conversations .open').all()) await open.click();
  assert.equal(await page.evaluate(() => window.harmed), undefined);
  calm();
});

test('an imported conversation goes on with the reasoning that it carries', async () => {
  await pick('fast');
  await say('styled');
  const download = page.waitForEvent('download');
  await page.click('#export');
  const file = join(folder, 'sealed.json');
  await (await download).saveAs(file);
  await page.locator('.conversations .remove').first().click();
  await page.locator('.empty').waitFor();
  await page.setInputFiles('#import-file', file);
  await page.locator('.conversations .open').click();
  assert.match(await figures().textContent(), /tokens/);
  const request = page.waitForRequest('**/web/chat');
  await say('hello');
  const body = (await request).postDataJSON();
  assert.ok(body.messages[1].sealed);
  assert.equal(await page.locator('.warning').count(), 0); // it would say that a value does not open
  calm();
});

test('the drawer: system prompt, sampling, a file', async () => {
  await pick('fast');
  await page.click('#settings');
  await page.fill('#system', 'You are short.');
  await page.fill('#temperature', '0');
  await page.fill('#max_tokens', '20');
  await page.fill('#seed', '7');
  await page.setInputFiles('#attach-file', {
    name: 'a.txt',
    mimeType: 'text/plain',
    buffer: Buffer.from('one\n```\ntwo'),
  });
  await page.locator('.files li').waitFor();
  const request = page.waitForRequest('**/web/chat');
  await say('styled');
  const body = (await request).postDataJSON();
  assert.deepEqual(body.messages[0], { role: 'system', content: 'You are short.' });
  assert.equal(body.messages[1].content, 'styled\n\nFile a.txt:\n````\none\n```\ntwo\n````');
  assert.deepEqual([body.temperature, body.max_tokens, body.seed], [0, 20, 7]);
  assert.match(await answer().textContent(), /It ended at a limit/);
  await page.setInputFiles('#attach-file', {
    name: 'b.bin',
    mimeType: 'application/octet-stream',
    buffer: Buffer.from([0, 255]),
  });
  await page.getByText('b.bin is not a text file.').waitFor();
  calm();
});

test('the answer matches the schema, and the page shows what the schema allowed', async () => {
  await page.click('#settings');
  await page.fill('#schema', '{"type": ');
  await page.getByText('This is not JSON').waitFor();
  await page.fill('#schema', '');
  await page.click('#schema-example');
  let list = '';
  for (let n = 0; n < 5 && !list.includes('0–9'); n++) {
    // A busy server shows an answer less often, and so fewer of its steps.
    await say('schema', false);
    await figures(n).waitFor();
    await answer(n).getByText('What the schema allowed').click();
    list = await answer(n).locator('.steps').textContent();
  }
  assert.match(list, /\(the beginning\) then \{/);
  assert.match(list, /0–9/);
  assert.deepEqual(JSON.parse(await answer().locator('.text pre code').last().textContent()), {
    sum: 42,
    unit: 'apples',
  });
  await shot('schema');
  await checkAll('what the schema allowed');
  await page.fill('#schema', '{"type": ');
  await page.getByText('This is not JSON').waitFor();
  await checkAll('a schema that is wrong');
  await page.fill('#schema', '');
  const items = await answer().locator('.steps li').allTextContents();
  assert.equal(new Set(items).size, items.length, items.join(' | '));
  assert.ok((await answer().locator('.steps li').count()) >= 3, 'it grows');
  calm();
});

test('tools: results are typed in', async () => {
  await pick('fast');
  await page.click('#settings');
  await page.click('#tools-example');
  await say('weather');
  assert.match(await answer().locator('.call').textContent(), /get_weather.*Oslo/s);
  await page.getByLabel('Result of get_weather').fill('Sunny.');
  const request = page.waitForRequest('**/web/chat');
  await page.getByRole('button', { name: 'Send the result' }).click();
  await answer().getByText('It is sunny in Oslo.').waitFor();
  const body = (await request).postDataJSON();
  assert.ok(body.messages[1].sealed, 'the sealed value is carried');
  assert.equal(body.messages[2].content, 'Sunny.');
  assert.doesNotMatch(await page.locator('#log').textContent(), /was left out/);
  calm();
});

test('a new message can be written instead of the results', async () => {
  await pick('fast');
  await page.click('#settings');
  await page.click('#tools-example');
  await say('weather');
  await page.getByLabel('Result of get_weather').waitFor();
  await say('styled');
  assert.match(await answer().textContent(), /The sum is 42/);
  assert.equal(await page.locator('.failed').count(), 0);
  assert.equal(await page.getByLabel('Result of get_weather').count(), 0);
  calm();
});

test('an example never replaces what was written', async () => {
  await page.click('#settings');
  await page.fill('#schema', '{"type": "array"}');
  assert.ok(await page.locator('#schema-example').isHidden());
  await page.fill('#schema', '');
  await page.click('#schema-example');
  assert.match(await page.locator('#schema').inputValue(), /apples/);
  calm();
});

test('a wrong setting loses no answer', async () => {
  await pick('fast');
  await say('styled');
  await page.click('#settings');
  await page.fill('#schema', '{"type": ');
  await page.click('#drawer-close');
  await answer().getByRole('button', { name: 'Regenerate' }).click();
  await page.getByText('This is not JSON').waitFor(); // the settings are open
  await page.fill('#schema', '');
  await page.click('#drawer-close');
  await say('hello');
  assert.equal(await page.locator('.message').count(), 4);
  assert.match(await answer(0).textContent(), /The sum is 42/);
  calm();
});

test('the timeline shows decisions, also after a reload', async () => {
  await pick('fast');
  await page.click('#settings');
  await page.click('#tools-example');
  await page.check('#rationale');
  await page.click('#drawer-close');
  await say('weather');
  await page.getByLabel('Result of get_weather').waitFor();
  for (let i = 0; i < 2; i++) {
    const rows = await answer().locator('.timeline li').allTextContents();
    assert.ok(rows.length >= 4, rows.join(' | '));
    assert.ok(
      rows.every((r) => /^\d+\.\d\d s/.test(r)),
      rows.join(' | '),
    );
    for (const want of [
      /Reasoning \d/,
      /assumes it is about today/,
      /calls get_weather: the weather ⟦U\+202E⟧changes/,
      /Call of get_weather/,
    ])
      assert.ok(
        rows.some((r) => want.test(r)),
        `${want} is not in ${rows.join(' | ')}`,
      );
    const [bar] = await answer()
      .locator('.timeline .part .span')
      .evaluateAll((all) => all.map((s) => s.clientWidth));
    assert.ok(bar > 0);
    if (i === 0) {
      await check('the timeline');
      await shot('timeline');
      await page.setViewportSize({ width: 360, height: 740 });
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      await shot('timeline-360');
    }
    await page.reload();
    await answer().locator('.timeline').waitFor();
  }
  calm();
});

test('the model calls a specialist, which calls a tool', async () => {
  await pick('fast');
  await page.click('#settings');
  await page.click('#tools-example');
  await page.check('#delegate');
  await page.click('#drawer-close');
  await say('delegate');
  assert.match(
    await answer().locator('.specialist').textContent(),
    /Specialist.*The specialist looks it up.*get_weather.*Oslo.*waits for the results of its calls/s,
  );
  await check('a specialist');
  await shot('specialist');
  await page.reload(); // the call is still there
  await page.getByLabel('Result of get_weather').fill('Cloudy.');
  const request = page.waitForRequest('**/web/chat');
  await page.getByRole('button', { name: 'Send the result' }).click();
  await answer().getByText('Clouds over Oslo.').waitFor();
  const body = (await request).postDataJSON();
  assert.deepEqual(
    body.messages[1].instructions.map((i) => i.type),
    ['delegate_reasoning', 'intermediate_reasoning'],
  );
  assert.equal(body.messages[1].calls.length, 1); // the call of the specialist is the server's own
  assert.equal(body.messages[1].calls[0].name, 'get_weather');
  assert.match(await answer().locator('.specialist').textContent(), /The specialist sees clouds.*returned/s);
  assert.equal(await page.locator('.warning').count(), 0);
  calm();
});

test('a specialist works in a place of its own', async () => {
  await pick('fast');
  await page.click('#settings');
  await page.fill('#specialist', 'You are careful.');
  await say('styled');
  assert.match(
    await answer().locator('.specialist').first().textContent(),
    /Specialist, as you asked.*So it is 42.*It returned/s,
  );
  calm();
});

test('two answers side by side', async () => {
  await page.click('#settings');
  await page.check('#compare');
  await page.selectOption('#compare-model', 'fast');
  await page.selectOption('#compare-effort', 'low');
  await page.click('#drawer-close');
  await say('styled', false);
  await page.locator('.pair .figures').nth(1).waitFor();
  assert.match(await page.locator('.pair').textContent(), /demo.*fast · effort low/s);
  await shot('compare');
  await checkAll('two answers side by side');
  await page.getByRole('button', { name: 'Go on with this one' }).click();
  assert.match(await answer().textContent(), /^fast/);
  assert.equal(await page.locator('.pair').count(), 0);
  calm();
});

test('hostile output is harmless', async () => {
  await pick('fast');
  await say('hostile');
  await answer().locator('details.thoughts summary').click();
  await shot('hostile');
  for (let i = 0; i < 2; i++) {
    const links = await page.locator('.text a').evaluateAll((list) => list.map((a) => a.getAttribute('href')));
    assert.ok(links.length > 0 && links.every((l) => l === null || /^(https?|mailto):/.test(l)), links.join(' '));
    assert.equal(await page.locator('.text').locator('img, script, style, iframe, svg, form, input').count(), 0);
    assert.equal(await page.locator('.text [onload], .text [onerror], .text [style]').count(), 0);
    assert.match(await page.locator('#log').textContent(), /U\+202E/);
    assert.equal(await page.evaluate(() => window.harmed), undefined);
    await page.reload();
    await answer().locator('.text a:visible').first().waitFor();
  }
  await say('line');
  const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(width <= 0, `the page is ${width} pixels too wide`);
  calm();
});

test('no long tasks while 200 tokens a second stream', async () => {
  await say('styled');
  await page.evaluate(() => {
    window.tasks = [];
    new PerformanceObserver((l) => window.tasks.push(...l.getEntries().map((e) => e.duration))).observe({
      type: 'longtask',
    });
  });
  await say('long', false);
  await figures().waitFor({ timeout: 30000 });
  const tasks = await page.evaluate(() => window.tasks);
  console.log(`long tasks: ${tasks.map((t) => t.toFixed(0)).join(', ') || 'none'}`);
  // A page that renders too much has a long task for each of a hundred renderings.
  assert.ok(strict ? tasks.length === 0 : tasks.length < 20, `long tasks of ${tasks} ms`);
});

test('a reload in the middle of an answer keeps what came', async () => {
  await say('endless', false);
  await answer().locator('.text', { hasText: 'word word word' }).first().waitFor();
  await page.waitForTimeout(1500);
  await page.reload();
  await answer().getByText('This answer was cut off').waitFor();
  assert.match(await answer().textContent(), /word word/);
  await answer().getByRole('button', { name: 'Regenerate' }).click();
  await page.locator('#stop').waitFor();
  calm();
});

test("two tabs do not lose each other's work", async () => {
  await pick('fast');
  await say('styled');
  const first = page;
  const second = await fresh();
  await second.goto(first.url());
  await second.locator('.message.assistant .text td').first().waitFor();
  page = second;
  await say('hello');
  await first.locator('.message').nth(3).waitFor(); // the first tab follows
  // A tab that missed a change goes on in a copy.
  await first.evaluate(
    () =>
      new Promise((resolve) => {
        indexedDB.open('runner').onsuccess = ({ target: { result: db } }) => {
          const all = db.transaction('conversations', 'readwrite').objectStore('conversations');
          all.getAll().onsuccess = ({
            target: {
              result: [c],
            },
          }) => {
            c.rev += 5;
            all.put(c).onsuccess = resolve;
          };
        };
      }),
  );
  await say('styled');
  await page.locator('.conversations .open', { hasText: '(copy)' }).waitFor();
  assert.equal(await page.locator('.conversations li').count(), 2);
  calm();
});

test('a lost connection and a restarted server', async () => {
  let own = await Site.start();
  await open(own.url);
  await say('endless', false);
  await answer().locator('.text', { hasText: 'word word word' }).first().waitFor();
  await own.kill();
  await answer().getByText('The connection was lost before the answer was complete.').waitFor();
  await checkAll('a lost connection');
  assert.match(await answer().textContent(), /word word/);
  await answer().getByRole('button', { name: 'Try again' }).click();
  await answer().getByText('The server cannot be reached').waitFor();
  await shot('lost');
  await checkAll('a server that cannot be reached');
  own = await Site.start('-port', own.port);
  try {
    await say('styled');
    assert.match(await answer().textContent(), /The sum is 42/);
    calm();
  } finally {
    await own.stop();
  }
});

test('keys are asked for, and kept no longer than the tab', async () => {
  const file = join(folder, 'keys.json');
  const hash = (key) => createHash('sha256').update(key).digest('hex');
  writeFileSync(
    file,
    JSON.stringify({
      keys: [
        { id: 'reader', sha256: hash('reader-key-0123456789'), reasoning: 'summary' },
        {
          id: 'boss',
          sha256: hash('boss-key-0123456789ab'),
          reasoning: 'full',
          scopes: ['generate', 'models', 'admin'],
        },
      ],
    }),
    { mode: 0o600 },
  );
  const locked = await Site.start('-keys', file);
  try {
    await open(locked.url);
    const enter = async (key, keep) => {
      await page.fill('#key-input', key);
      if (keep) await page.check('#key-keep');
      await page.getByRole('button', { name: 'Use the key' }).click();
    };
    await page.locator('#key-dialog[open]').waitFor();
    await shot('key');
    await checkAll('the dialog for a key');
    await page.click('#key-cancel');
    await page.click('#key'); // a second thought
    await enter('wrong-key-0123456789');
    await page.getByText('The server does not know this key.').waitFor();
    await checkAll('a key that is not known');
    await enter('reader-key-0123456789');
    await page.locator('#visibility option:disabled').waitFor({ state: 'attached' });
    await pick('fast');
    await say('styled');
    assert.match(await answer().textContent(), /It adds the digits/);
    assert.ok(await page.locator('#operator').isHidden());
    const stored = await page.evaluate(async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
    assert.doesNotMatch(stored, /reader-key/);
    await page.reload();
    await page.locator('#key-dialog[open]').waitFor(); // the reload forgot it
    await enter('boss-key-0123456789ab', true);
    await page.locator('#operator').waitFor();
    await page.reload();
    await page.locator('#operator').waitFor();
    await page.click('#operator');
    await page.locator('#operator-body table').nth(1).waitFor();
    assert.match(await page.locator('#operator-body').textContent(), /Requests now.*fast.*loaded.*reader1/s);
    await checkAll('the view for operators');
    await shot('operator');
    let figuresRead = 0;
    page.on('request', (r) => (figuresRead += r.url().endsWith('/web/figures')));
    await page.waitForRequest('**/web/figures'); // it goes on while it is open
    await page.click('#operator-close');
    await page.locator('#operator-dialog').waitFor({ state: 'hidden' });
    assert.equal(await page.evaluate(() => document.activeElement.id), 'operator');
    const read = figuresRead;
    await page.waitForTimeout(2500);
    assert.equal(figuresRead, read, 'a closed view reads no figures');
    calm();
  } finally {
    await locked.stop();
  }
});

test('a key that may not see the models names one', async () => {
  const file = join(folder, 'writer.json');
  const sha256 = createHash('sha256').update('writer-key-012345678').digest('hex');
  writeFileSync(file, JSON.stringify({ keys: [{ id: 'writer', sha256, scopes: ['generate'] }] }), { mode: 0o600 });
  const locked = await Site.start('-keys', file);
  try {
    await open(locked.url);
    await page.fill('#key-input', 'writer-key-012345678');
    await page.getByRole('button', { name: 'Use the key' }).click();
    await page.locator('#model-name').waitFor();
    assert.ok(await page.locator('#model').isHidden());
    await checkAll('a model that is typed');
    await page.getByRole('textbox', { name: 'Model', exact: true }).fill('fast');
    const request = page.waitForRequest('**/web/chat');
    await say('styled');
    assert.equal((await request).postDataJSON().model, 'fast');
    assert.match(await answer().textContent(), /^fast/);
    await page.fill('#model-name', 'none');
    await say('styled', false);
    await page.locator('.failed').waitFor();
    assert.match(await page.locator('.failed').textContent(), /none/);
    calm();
  } finally {
    await locked.stop();
  }
});

test('the first link skips to the message', async () => {
  await page.locator('.empty').waitFor();
  const skip = page.getByRole('link', { name: 'Skip to the message' });
  const focused = () => page.evaluate(() => document.activeElement.className);
  const height = async () => (await skip.boundingBox()).height;
  assert.ok((await height()) <= 1, 'it is hidden');
  for (let i = 0; i < 60 && (await focused()) !== 'skip'; i++) await page.keyboard.press('Shift+Tab');
  assert.equal(await focused(), 'skip');
  assert.ok((await height()) > 10, 'it shows while it has the focus');
  await checkAll('the link that skips');
  await page.keyboard.press('Shift+Tab');
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'BODY', 'it is the first');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.type('styled');
  assert.equal(await page.inputValue('#message'), 'styled');
  calm();
});

test('the keyboard is enough', async () => {
  await page.locator('.empty').waitFor();
  await page.keyboard.type('styled');
  await page.keyboard.press('Enter');
  await figures().waitFor();
  const focus = () =>
    page.evaluate(
      () => document.activeElement.id || document.activeElement.textContent.trim() || document.activeElement.tagName,
    );
  const until = async (name, key = 'Tab') => {
    for (let i = 0; i < 60; i++) {
      if ((await focus()) === name) return;
      await page.keyboard.press(key);
    }
    assert.fail(`${name} cannot be reached with ${key}`);
  };
  await until('Reasoning', 'Shift+Tab');
  await page.keyboard.press('Enter');
  assert.notEqual(await answer().locator('details.thoughts').getAttribute('open'), null);
  await until('settings', 'Shift+Tab');
  await page.keyboard.press('Enter');
  await until('temperature');
  await page.keyboard.press('Escape');
  assert.equal(await focus(), 'settings');
  await until('Regenerate');
  await page.keyboard.press('Enter');
  await page.locator('#stop').waitFor();
  assert.match(await page.locator('#status').textContent(), /answering/);
  await figures().waitFor();
  calm();
});

test('on a narrow page, a touch beside the menu closes it', async () => {
  await open(site.url, { viewport: { width: 360, height: 740 }, hasTouch: true });
  await page.locator('.empty').waitFor();
  await page.tap('#menu');
  await page.locator('.side.shown').waitFor();
  await page.touchscreen.tap(340, 400);
  await page.locator('.side.shown').waitFor({ state: 'detached' });
  assert.equal(await page.locator('#menu').getAttribute('aria-expanded'), 'false');
  calm();
});

test('axe finds nothing, wide and narrow, light and dark', async () => {
  for (const [width, height] of [
    [1600, 900],
    [360, 740],
  ]) {
    for (const colorScheme of ['light', 'dark']) {
      await open(site.url, { viewport: { width, height }, colorScheme });
      await page.locator('.empty').waitFor();
      const look = async (name) => {
        assert.ok(
          await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
          `${name} at ${width} is too wide`,
        );
        await check(`${name}, ${width}, ${colorScheme}`);
        await shot(`${name}-${width}-${colorScheme}`);
      };
      await look('empty');
      await pick('fast');
      await say('styled');
      await answer().locator('details.thoughts summary').click();
      await look('answer');
      await page.click('#settings');
      await page.click('#tools-example');
      await look('settings');
      await page.click('#drawer-close');
      await say('weather');
      await look('call');
      if (width < 500) {
        await page.click('#menu');
        await look('menu');
      }
    }
  }
});

test('effort, filters, the budget and what is kept are sent', async () => {
  await pick('fast');
  await page.selectOption('#effort', 'low');
  await page.click('#settings');
  await page.fill('#top_p', '0.9');
  await page.fill('#min_p', '0.05');
  await page.fill('#budget', '50');
  await page.uncheck('#carry');
  await page.check('#keep');
  await page.click('#drawer-close');
  const request = page.waitForRequest('**/web/chat');
  await say('styled');
  const body = (await request).postDataJSON();
  assert.deepEqual(
    [body.reasoning_effort, body.top_p, body.min_p, body.reasoning_budget, body.reasoning_seal, body.keep_reasoning],
    ['low', 0.9, 0.05, 50, false, true],
  );
  assert.match(await answer().locator('.who').first().textContent(), /effort low/);
  const again = page.waitForRequest('**/web/chat');
  await say('hello');
  assert.ok(!(await again).postDataJSON().messages.some((m) => m.sealed), 'nothing sealed is carried');
  calm();
});

test('a trace is asked for where the server keeps traces', async () => {
  assert.ok(await page.locator('#trace-row').isHidden());
  await page.route('**/web/session', async (route) => {
    const reply = await route.fetch();
    await route.fulfill({ response: reply, json: { ...(await reply.json()), traces: true } });
  });
  await page.reload();
  await pick('fast');
  await page.click('#settings');
  await page.check('#trace');
  await page.click('#drawer-close');
  const request = page.waitForRequest('**/web/chat');
  await say('styled', false);
  assert.equal((await request).postDataJSON().reasoning_encrypt, true);
  await page.locator('.failed').waitFor(); // this server keeps none, and says so
});

test('copies, a file that is taken back, and an edit that is cancelled', async () => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await pick('fast');
  await page.setInputFiles('#attach-file', { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('one') });
  await page.getByRole('button', { name: 'Remove a.txt' }).click();
  assert.equal(await page.locator('.files li').count(), 0);
  await say('styled');
  await page.locator('.message.user').getByRole('button', { name: 'Copy' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'styled');
  await answer().getByRole('button', { name: 'Copy' }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^## Adding\n\nThe sum is \*\*42\*\*/);
  await page.locator('.message.user').getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Edit the message').fill('something else');
  await page.getByRole('button', { name: 'Cancel' }).click();
  assert.match(await page.locator('.message.user').textContent(), /styled/);
  assert.equal(await page.locator('.message').count(), 2);
  calm();
});
