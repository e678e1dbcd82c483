// The server that the tests of one file share.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import assert from 'node:assert/strict';

const program = process.env.RUNNER ?? new URL('../../../../../bin/runner', import.meta.url).pathname;
// What test.sh was told to give to every server.
const more = (process.env.SERVER_FLAGS ?? '').split('\n').filter((flag) => flag);

// atAddress says that another engine, at an address, computes the model.
export const atAddress = Boolean(process.env.AT_ADDRESS);

// warm returns a temperature for answers that two runs with the same seed must share. Other engines round in another
// way when a part of the prompt is cached, so there only greedy answers are the same.
export const warm = (temperature) => (atAddress ? 0 : temperature);

// Server is a running "runner serve" with the bundled model.
export class Server {
  static async start(...flags) {
    const s = new Server();
    s.folder = mkdtempSync(join(tmpdir(), 'runner-clients-'));
    s.process = spawn(program, ['serve', '--port', '0', ...more, ...flags], {
      env: { ...process.env, XDG_DATA_HOME: join(s.folder, 'data') },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    s.ended = new Promise((resolve) => s.process.once('exit', (code, signal) => resolve(code ?? signal)));
    s.log = '';
    s.url = await new Promise((resolve, reject) => {
      s.process.once('error', reject);
      s.ended.then((status) => reject(new Error(`the server ended with ${status}:\n${s.log}`)));
      createInterface(s.process.stderr).on('line', (line) => {
        s.log += line + '\n';
        const address = /^serving .* at (http\S+)/.exec(line);
        if (address) resolve(address[1]);
      });
    });
    return s;
  }

  // withKeys starts a server that asks for API keys. entries says what each key may do. key has the keys by id.
  static async withKeys(...entries) {
    const folder = mkdtempSync(join(tmpdir(), 'runner-clients-keys-'));
    try {
      const file = join(folder, 'keys.json');
      const keys = entries.map((entry) => ({ ...entry, sha256: createHash('sha256').update(keyOf(entry.id)).digest('hex') }));
      writeFileSync(file, JSON.stringify({ keys }), { mode: 0o600 });
      return await Server.start('--api-keys', file);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }

  // stop stops the server, which must exit without an error.
  async stop() {
    this.process.kill('SIGTERM');
    const status = await this.ended;
    rmSync(this.folder, { recursive: true });
    assert.equal(status, 0, `the server ended with ${status}:\n${this.log}`);
  }

  // metric reads one of the server's metrics.
  async metric(name) {
    const text = await (await fetch(this.url + '/metrics')).text();
    const line = text.split('\n').find((line) => line.startsWith(name + ' '));
    assert.ok(line, `there is no metric ${name}`);
    return Number(line.slice(name.length + 1));
  }

  // running waits up to ten seconds until so many runs are active.
  async running(count) {
    const name = 'runner_runs_active{model="demo"}';
    for (let tries = 0; (await this.metric(name)) !== count; tries++) {
      assert.ok(tries < 500, `${await this.metric(name)} runs are active, want ${count}`);
      await sleep(20);
    }
  }

  // cut leaves a run and checks that it ends there: the server generates fewer tokens than the run has when the client
  // stays.
  async cut(tokens, leave) {
    const name = 'runner_tokens_total{kind="completion",model="demo"}';
    const before = await this.metric(name);
    await leave();
    await this.running(0);
    await sleep(50); // tokens are counted when the run is over
    const spent = (await this.metric(name)) - before;
    assert.ok(spent < tokens, `the server went on to the end: ${spent} of ${tokens} tokens`);
  }
}

// keyOf returns the API key with an id.
export const keyOf = (id) => `test-key-of-${id}-0123456789`;
