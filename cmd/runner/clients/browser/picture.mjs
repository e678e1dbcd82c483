// Draws the picture of the page in README.md: bin/runner with the bundled model, in Chromium. BROWSER names the browser,
// RUNNER the program, and the argument the file.
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { chromium } from 'playwright-core';

const port = await new Promise((resolve) => {
  const s = createServer().listen(0, '127.0.0.1', () => {
    const { port } = s.address();
    s.close(() => resolve(port));
  });
});
const server = spawn(process.env.RUNNER, ['serve', '--port', String(port), '--temperature', '0'], { stdio: 'ignore' });
const browser = await chromium.launch({ executablePath: process.env.BROWSER, args: ['--no-sandbox'] });
try {
  const url = `http://127.0.0.1:${port}/`;
  for (let tries = 0; tries < 100; tries++) {
    const healthy = await fetch(`${url}health`).then((r) => r.ok, () => false);
    if (healthy) break;
    await new Promise((resolve) => { setTimeout(resolve, 100); });
  }
  const page = await browser.newPage({ viewport: { width: 960, height: 560 }, colorScheme: 'light' });
  await page.goto(url);
  await page.getByPlaceholder('Ask something').fill('What is 17 + 25?');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText(/tokens\/s/).waitFor();
  await page.getByRole('button', { name: 'Send' }).waitFor();
  await page.locator('details summary', { hasText: 'Reasoning' }).last().click();
  await page.screenshot({ path: process.argv[2], animations: 'disabled', caret: 'hide' });
} finally {
  await browser.close();
  server.kill();
}
