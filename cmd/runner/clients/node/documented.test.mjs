// Runs the example for Vercel's SDK in docs/clients.md as it stands there, but for the address and the model.
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { Server } from './lib/server.mjs';

test('the example for the AI SDK', async () => {
  const page = readFileSync(new URL('../../../../docs/clients.md', import.meta.url), 'utf8');
  const code = page.split('```js\n')[1].split('```')[0];
  const server = await Server.start('--temperature', '0');
  // Packages are found from the folder of the file.
  const file = new URL(`documented-${process.pid}.mjs`, import.meta.url);
  try {
    writeFileSync(file, code.replaceAll('http://127.0.0.1:8080', server.url).replaceAll('gpt-oss-20b', 'demo'));
    const { stdout } = await promisify(execFile)(process.execPath, [file.pathname]);
    assert.match(stdout, /^\{ a: -?\d+, b: -?\d+, result: -?\d+ \}\n/);
    assert.match(stdout, /17\+25: 7\+5=12.*so 42\. 17 \+ 25 = 42\.\n$/s);
  } finally {
    rmSync(file, { force: true });
    await server.stop();
  }
});
