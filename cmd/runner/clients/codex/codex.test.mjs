// Tests with OpenAI's coding agent Codex against the Responses API: a turn with a tool, a resumed session, a tool of an
// MCP server, and a prompt that does not fit.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { Server } from '../node/lib/server.mjs';

// Each turn reads a prompt of thousands of tokens, so make test-clients has one case.
const long = process.env.RUNNER_LONG ? {} : { skip: 'make test-long runs it' };
const bin = (name) => new URL(`node_modules/.bin/${name}`, import.meta.url).pathname;
const command = 'echo forty-two';
const short = { type: 'json_schema', name: 'short', strict: true, schema: { enum: ['forty-two'] } };

// Relay is a proxy between Codex and the server. It keeps what both sides send. The bundled model is too small to
// choose a shell command. So if call is set, the relay requires the call that the test wants, until its result has been
// sent, and forbids every other. The model's reasoning, its answer and the arguments of a call may never end after a
// prompt of this size. So the relay limits the reasoning and the answer.
class Relay {
  turns = [];
  call = null;

  static async start(target) {
    const r = new Relay();
    r.server = createServer((request, response) => r.pass(target, request, response).catch((err) => response.destroy(err)));
    await new Promise((resolve) => r.server.listen(0, '127.0.0.1', resolve));
    r.url = `http://127.0.0.1:${r.server.address().port}`;
    return r;
  }

  async pass(target, request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const isTurn = request.method === 'POST' && request.url === '/v1/responses';
    let body = request.method === 'POST' ? Buffer.concat(chunks) : undefined;
    const sent = isTurn ? JSON.parse(body) : null;
    if (isTurn) {
      Object.assign(sent, { temperature: 0, reasoning: { ...sent.reasoning, max_tokens: 100 }, text: { format: short } });
      const call = this.call && !sent.input.some((item) => item.type === 'function_call_output');
      body = JSON.stringify(call
        ? { ...sent, tools: sent.tools.map((tool) => narrow(tool, this.call)), tool_choice: { type: 'function', ...this.call.choice } }
        : { ...sent, tool_choice: 'none' });
    }
    const headers = { 'content-type': 'application/json', accept: request.headers.accept ?? '*/*' };
    const answer = await fetch(target + request.url, { method: request.method, headers, body });
    const text = await answer.text();
    if (isTurn) this.turns.push({ sent, status: answer.status, events: eventsOf(text) });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
    response.end(text);
  }

  take() {
    return this.turns.splice(0);
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }
}

// shell is a call of Codex's own tool, and echo is one of the MCP server's. Each can be made with these arguments only,
// so that nothing else can be run.
const shell = { choice: { name: 'exec_command' }, arguments: { cmd: command } };
const echo = { choice: { namespace: 'mcp__everything', name: 'echo' }, arguments: { message: 'forty-two' } };

// narrow lets the tool of a call take only the arguments of the call.
function narrow(tool, call) {
  if (tool.type === 'namespace' && tool.name === call.choice.namespace) {
    return { ...tool, tools: tool.tools.map((inner) => narrow(inner, { ...call, choice: { name: call.choice.name } })) };
  }
  if (call.choice.namespace || tool.name !== call.choice.name) return tool;
  const properties = Object.fromEntries(Object.entries(call.arguments).map(([name, value]) => [name, { type: 'string', enum: [value] }]));
  return { ...tool, parameters: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false }, strict: true };
}

const eventsOf = (text) => text.split('\n').filter((line) => line.startsWith('data: {')).map((line) => JSON.parse(line.slice(6)));
const itemsOf = (turn, type) => turn.sent.input.filter((item) => item.type === type);
const dropped = (turn) => turn.events.flatMap((event) => event.response?.warnings ?? []).filter(({ code }) => code.startsWith('sealed_'));

// codex runs one command of Codex and returns its events and exit status. home contains its sessions.
async function codex(home, url, ...args) {
  mkdirSync(join(home, 'config'), { recursive: true });
  mkdirSync(join(home, 'work'), { recursive: true });
  writeFileSync(join(home, 'config', 'config.toml'), `model = "demo"
model_provider = "runner"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.runner]
name = "runner"
base_url = "${url}/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[mcp_servers.everything]
command = "${bin('mcp-server-everything')}"
default_tools_approval_mode = "approve"
enabled_tools = ["echo"]
required = true
startup_timeout_sec = 60
`);
  const child = spawn(bin('codex'), ['exec', '--skip-git-repo-check', '--json', ...args], {
    cwd: join(home, 'work'),
    env: { PATH: process.env.PATH, HOME: home, CODEX_HOME: join(home, 'config') },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // a group of its own, because the program starts another one
  });
  let out = '', err = '';
  child.stdout.on('data', (data) => { out += data; });
  child.stderr.on('data', (data) => { err += data; });
  const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), 300_000);
  const status = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  clearTimeout(timer);
  const events = out.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line));
  return { status, events, items: events.filter((e) => e.type === 'item.completed').map((e) => e.item), log: out + err };
}

let home;
before(() => { home = mkdtempSync(join(tmpdir(), 'runner-codex-')); });
after(() => rmSync(home, { recursive: true, force: true }));

test('a turn with a tool, and the resumed session', long, async () => {
  // Codex's own prompt is longer than the context that the bundled model was trained for.
  const server = await Server.start('--ctx-size', '32768');
  const relay = await Relay.start(server.url);
  try {
    relay.call = shell;
    const first = await codex(home, relay.url, 'What is 17 + 25?');
    assert.equal(first.status, 0, first.log);
    const ran = first.items.find((item) => item.type === 'command_execution');
    assert.equal(ran?.exit_code, 0, first.log);
    assert.match(ran.aggregated_output, /forty-two/);
    assert.ok(first.items.some((item) => item.type === 'agent_message'), first.log);
    const [asked, answered, ...more] = relay.take();
    assert.deepEqual(more, []);
    assert.deepEqual([asked.status, answered.status], [200, 200]);
    assert.match(itemsOf(answered, 'function_call_output')[0].output, /forty-two/);
    const sealed = itemsOf(answered, 'reasoning');
    assert.equal(sealed.length, 1, 'the reasoning before the call comes back with it');
    assert.ok(sealed[0].encrypted_content, 'the reasoning is sealed');
    assert.deepEqual(dropped(answered), [], 'the sealed reasoning is taken');

    relay.call = null;
    const second = await codex(home, relay.url, 'resume', '--last', 'And what is 3 + 4?');
    assert.equal(second.status, 0, second.log);
    assert.ok(second.items.some((item) => item.type === 'agent_message'), second.log);
    const [resumed] = relay.take();
    assert.equal(resumed.status, 200);
    assert.equal(itemsOf(resumed, 'reasoning').length, 2, 'a resumed session carries the reasoning of both turns');
    assert.deepEqual(dropped(resumed), []);
  } finally {
    relay.stop();
    await server.stop();
  }
});

test('a tool of an MCP server', async () => {
  const server = await Server.start('--ctx-size', '32768');
  const relay = await Relay.start(server.url);
  try {
    relay.call = echo;
    const run = await codex(home, relay.url, 'What is 17 + 25?');
    assert.equal(run.status, 0, run.log);
    const called = run.items.find((item) => item.type === 'mcp_tool_call');
    assert.deepEqual([called?.server, called?.tool, called?.status], ['everything', 'echo', 'completed'], run.log);
    const [asked, answered, ...more] = relay.take();
    assert.deepEqual(more, []);
    assert.ok(asked.sent.tools.some((tool) => tool.type === 'namespace'), 'Codex groups the tools of a server');
    const left = asked.events.at(-1).response.warnings.find(({ code }) => code === 'tool_skipped');
    assert.doesNotMatch(left?.message ?? '', /namespace/, 'the tools of the server are offered');
    const [call] = itemsOf(answered, 'function_call');
    assert.deepEqual([call.namespace, call.name, JSON.parse(call.arguments)], ['mcp__everything', 'echo', echo.arguments]);
    assert.match(JSON.stringify(itemsOf(answered, 'function_call_output')[0].output), /Echo: forty-two/);
    assert.deepEqual(dropped(answered), [], 'the sealed reasoning is taken');
  } finally {
    relay.stop();
    await server.stop();
  }
});

test('a prompt that does not fit is reported as such', long, async () => {
  const server = await Server.start('--ctx-size', '4096');
  const relay = await Relay.start(server.url);
  try {
    const run = await codex(home, relay.url, 'What is 17 + 25?');
    const failed = run.events.find((event) => event.type === 'turn.failed');
    assert.match(failed?.error.message ?? '', /ran out of room in the model's context window/, run.log);
    const [turn] = relay.take();
    assert.equal(turn.events.at(-1)?.response.error.code, 'context_length_exceeded');
  } finally {
    relay.stop();
    await server.stop();
  }
});
