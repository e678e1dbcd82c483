// Tests that the program of the Reactive Agents package makes the same debriefs of this program's traces.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';

const runner = process.env.RUNNER ?? new URL('../../../../bin/runner', import.meta.url).pathname;
const theirs = new URL('node_modules/.bin/rax-diagnose', import.meta.url).pathname;

const tool = {
  type: 'function',
  function: {
    name: 'calculator',
    description: 'Works out a sum.',
    parameters: {
      type: 'object',
      properties: { operation: { enum: ['add', 'subtract'] }, a: { type: 'integer' }, b: { type: 'integer' } },
      required: ['operation', 'a', 'b'],
    },
  },
};

let folder;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'runner-debrief-'));
  writeFileSync(join(folder, 'tools.json'), JSON.stringify([tool]));
  writeFileSync(join(folder, 'specialist.txt'), 'You are a careful calculator. Check your work.');
});
after(() => rmSync(folder, { recursive: true }));

function call(program, ...args) {
  const env = { ...process.env, XDG_DATA_HOME: folder, HOME: folder, NO_COLOR: '1' };
  const stdio = ['ignore', 'pipe', 'pipe'];
  return execFileSync(program, args, { cwd: folder, env, encoding: 'utf8', stdio, timeout: 60_000 });
}

// debrief writes the trace of a run, and returns the debriefs that both programs make of it.
function debrief(...args) {
  const file = join(folder, 'trace.jsonl');
  writeFileSync(file, call(runner, 'run', '--temperature', '0', '--output', 'decisions', ...args));
  const ours = JSON.parse(call(runner, 'trace', 'explain', '--json', file));
  delete ours.rationaleMissing; // only this program has it
  const package_ = JSON.parse(call(theirs, 'debrief', file, '--json'));
  assert.deepEqual(package_, ours);
  assert.equal(call(runner, 'trace', 'explain', file).trimEnd(), call(theirs, 'debrief', file).trimEnd());
  return package_;
}

test('a call with its reason', () => {
  const d = debrief('--tools', 'tools.json', '--rationale', '--reasoning', 'full', 'What is 48213 + 9977?');
  assert.equal(d.goal, 'What is 48213 + 9977?');
  assert.equal(d.path[0]?.action, 'tool:calculator');
  assert.ok(d.path[0].rationale?.why, 'the call has no reason');
  assert.equal(d.termination.by, 'tool_calls');
  assert.ok(d.termination.rationale?.why);
  assert.equal(d.verdict.status, 'success');
  assert.ok(d.verdict.tokens > 0);
});

test('a call whose reason is hidden', () => {
  const d = debrief('--tools', 'tools.json', '--rationale', 'What is 48213 + 9977?');
  assert.equal(d.path[0]?.action, 'tool:calculator');
  assert.equal(d.path[0].rationale, undefined);
});

test('work that the model does not see', () => {
  const d = debrief('--delegate', 'specialist.txt', '--delegated-work', 'delete', 'What is 17 + 25?');
  assert.equal(d.curatorActions[0]?.action, 'dropped');
  assert.ok(d.curatorActions[0].targetRef);
  assert.ok(d.curatorActions[0].rationale.why);
});
