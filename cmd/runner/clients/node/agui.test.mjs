// Tests with @ag-ui/client against /agui: versions 1.0.0 and 0.0.58, the last one before it. Both clients check the
// order and the pairing of events.
import { after, before, beforeEach, test } from 'node:test';
import assert from 'node:assert/strict';
import * as current from '@ag-ui/client';
import * as older from 'ag-ui-client-0.0.58';
import { EventSchemas, RunAgentInputSchema } from '@ag-ui/core/schemas';
import { Server, keyOf } from './lib/server.mjs';
import { Wire, assertHidden, longestShared } from './lib/wire.mjs';

const question = { id: 'q1', role: 'user', content: 'What is 17 + 25?' };
const greedy = { temperature: 0, seed: 1 };
const add = {
  name: 'add',
  description: 'Adds two numbers',
  parameters: {
    type: 'object',
    properties: { a: { type: 'integer', minimum: 0, maximum: 999 }, b: { type: 'integer', minimum: 0, maximum: 999 } },
    required: ['a', 'b'],
    additionalProperties: false,
  },
};

let server, thoughts;
const wire = new Wire();
const warned = [];
before(async () => {
  console.warn = (...words) => warned.push(words.join(' '));
  console.error = () => {}; // the clients print failed runs there
  server = await Server.start();
  const { agent } = await run(current, { reasoning: 'full' });
  thoughts = agent.messages.find((m) => m.role === 'reasoning').content;
});
after(() => server.stop());
beforeEach(() => {
  warned.length = 0;
  wire.take();
});

const newAgent = (client, messages = [question], options = {}) =>
  new client.HttpAgent({ url: server.url + '/agui', fetch: wire.fetch, initialMessages: messages, ...options });

// ask runs an agent. It returns what came over the wire and to a subscriber, and the run's result.
async function ask(agent, props = {}, more = {}) {
  const heard = [];
  wire.take();
  const outcome = await agent.runAgent({ forwardedProps: { ...greedy, ...props }, ...more }, { onEvent: ({ event }) => void heard.push(event) });
  return { agent, heard, events: wire.take(), ...outcome };
}

const run = (client, props, more) => ask(newAgent(client), props, more);

const types = (events) => events.map((e) => e.type);
const said = (agent, role) => agent.messages.filter((m) => m.role === role).map((m) => m.content ?? '').join('');
const answer = (agent) => agent.messages.findLast((m) => m.role === 'assistant');

// checkEvents checks the events against the published schemas: every event has a known type and no unknown field.
function checkEvents(events) {
  assert.ok(events.length > 2);
  for (const event of events) {
    const shape = EventSchemas.options.find((o) => o.shape.type.value === event.type)?.shape;
    assert.ok(shape, event.type);
    EventSchemas.parse(event);
    for (const [key, value] of Object.entries(event)) {
      assert.ok(key in shape, `${event.type} has ${key}`);
      assert.notEqual(value, null, `${event.type} has no ${key}`);
    }
    assert.ok(Number.isInteger(event.timestamp) && Math.abs(event.timestamp - Date.now()) < 60_000);
  }
  assert.equal(events[0].type, 'RUN_STARTED');
  assert.equal(events.filter((e) => e.type === 'RUN_FINISHED' || e.type === 'RUN_ERROR').length, 1);
  assert.match(events.at(-1).type, /^RUN_(FINISHED|ERROR)$/);
  checkOrder(events);
  assert.deepEqual(warned, []);
}

// checkOrder checks what may be open at each event. A message gets its sealed value while it is open, a call after its
// end. The chunks of reasoning are not mixed with other events.
function checkOrder(events) {
  const open = new Set();
  for (const { type, messageId, toolCallId, entityId, subtype } of events) {
    const [, stem, end] = /^(.*)_(START|END)$/.exec(type) ?? [];
    const id = `${stem} ${messageId ?? toolCallId}`;
    if (end === 'START') {
      assert.ok(!open.has(id), `${id} is open`);
      open.add(id);
    } else if (end === 'END') {
      assert.ok(open.delete(id), `${id} is not open`);
    } else if (type === 'REASONING_ENCRYPTED_VALUE') {
      const inside = ['REASONING', 'REASONING_MESSAGE', 'TEXT_MESSAGE'].some((kind) => open.has(`${kind} ${entityId}`));
      assert.equal(inside, subtype === 'message', `the value of ${entityId}, with ${[...open]} open`);
      assert.ok(!open.has(`TOOL_CALL ${entityId}`));
    } else if (type === 'REASONING_MESSAGE_CHUNK') {
      assert.ok(![...open].some((name) => /^(TEXT|TOOL)/.test(name)), `a chunk comes with ${[...open]} open`);
    }
  }
  assert.deepEqual([...open], []);
}

// roles returns the roles of the messages of a conversation. An assistant may send several messages in a turn.
const roles = (agent) => agent.messages.map((m) => m.role).filter((role, i, all) => role !== all[i - 1]);

for (const [version, client] of [['1.0.0', current], ['0.0.58', older]]) {
  test(`${version}: an answer without its reasoning`, async () => {
    const { agent, events, result, newMessages } = await run(client);
    checkEvents(events);
    assert.equal(said(agent, 'assistant'), '17 + 25 = 42.');
    assert.deepEqual(newMessages.map((m) => m.role), ['assistant']);
    assert.deepEqual(types(events).slice(0, 4), ['RUN_STARTED', 'REASONING_START', 'REASONING_END', 'TEXT_MESSAGE_START']);
    assert.equal(result.finish_reason, 'stop');
    assert.equal(result.reasoning_info.visibility, 'none');
    assertHidden(events, thoughts);
    const { usage, outcome } = events.at(-1);
    assert.deepEqual(outcome, { type: 'success' });
    assert.equal(usage.length, 1);
    assert.equal(usage[0].model, 'demo');
    assert.ok(usage[0].reasoningTokens > 10 && usage[0].outputTokens > usage[0].reasoningTokens);
    assert.equal(usage[0].totalTokens, usage[0].inputTokens + usage[0].outputTokens);
  });

  test(`${version}: full reasoning comes before the answer`, async () => {
    const { agent, events, newMessages } = await run(client, { reasoning: 'full' });
    checkEvents(events);
    assert.deepEqual(newMessages.map((m) => m.role), ['reasoning', 'assistant']);
    assert.equal(said(agent, 'reasoning'), thoughts);
    assert.equal(said(agent, 'assistant'), '17 + 25 = 42.');
    const order = types(events).filter((type, i, all) => type !== all[i - 1]);
    assert.deepEqual(order, [
      'RUN_STARTED', 'REASONING_START', 'REASONING_MESSAGE_START', 'REASONING_MESSAGE_CONTENT', 'REASONING_MESSAGE_END', 'REASONING_END',
      'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END', 'RUN_FINISHED',
    ]);
    assert.notEqual(newMessages[0].id, newMessages[1].id);
  });

  test(`${version}: without reasoning no phase is shown`, async () => {
    const { agent, events } = await run(client, { reasoning_effort: 'none', reasoning_seal: true });
    checkEvents(events);
    assert.deepEqual(roles(agent), ['user', 'assistant']);
    assert.ok(!types(events).some((type) => type.startsWith('REASONING_')));
  });

  test(`${version}: history reads user, reasoning, assistant`, async () => {
    for (const reasoning of ['none', 'summary', 'full']) {
      for (const props of [{}, { chunks: true }, { reasoning_seal: true }, { reasoning_seal: true, chunks: true }, { reasoning_effort: 'none' }]) {
        for (const content of [question.content, 'What is 48213 + 9977?']) {
          const agent = newAgent(client, [{ ...question, content }]);
          const { events } = await ask(agent, { reasoning, ...props }, { tools: [add] });
          checkEvents(events);
          const history = ['user', 'assistant'];
          if (reasoning !== 'none' && props.reasoning_effort !== 'none') history.splice(1, 0, 'reasoning');
          if (reasoning === 'summary' && props.reasoning_effort === 'none') history.push('reasoning'); // it explains the answer
          assert.deepEqual(roles(agent), history, JSON.stringify({ reasoning, props, content }));
          const texts = types(events).findIndex((type) => /^(TEXT_MESSAGE|TOOL_CALL)_START$/.test(type));
          const phase = types(events).indexOf('REASONING_START');
          if (props.reasoning_effort !== 'none') assert.ok(phase > 0 && phase < texts);
        }
      }
    }
  });

  test(`${version}: a summary shows no other reasoning`, async () => {
    const { agent, events, result } = await run(client, { reasoning: 'summary' });
    checkEvents(events);
    const summary = said(agent, 'reasoning');
    assert.ok(summary.length > 0);
    assert.ok(longestShared(summary, thoughts) <= 12, summary);
    assertHidden(events, thoughts);
    assert.equal(said(agent, 'assistant'), '17 + 25 = 42.');
    assert.equal(result.reasoning_summary_source, 'reasoning');
    assert.equal(events.at(-1).usage.length, 2);
  });

  for (const reasoning of ['full', 'summary']) {
    test(`${version}: chunks give the same message, ${reasoning}`, async () => {
      const { agent, events, heard } = await run(client, { reasoning, chunks: true });
      checkEvents(events);
      assert.ok(types(events).includes('REASONING_MESSAGE_CHUNK'));
      assert.ok(!types(events).some((type) => /^REASONING_MESSAGE_(START|CONTENT|END)$/.test(type)));
      assert.ok(types(heard).includes('REASONING_MESSAGE_END'));
      const whole = await run(client, { reasoning });
      assert.equal(said(agent, 'reasoning'), said(whole.agent, 'reasoning'));
      assert.equal(said(agent, 'assistant'), '17 + 25 = 42.');
    });
  }

  for (const reasoning of ['none', 'summary', 'full']) {
    test(`${version}: sealed values come back with the next turn, ${reasoning}`, async () => {
      const { agent, events } = await run(client, { reasoning, reasoning_seal: true });
      checkEvents(events);
      const carrier = agent.messages.find((m) => m.encryptedValue);
      assert.equal(carrier.role, reasoning === 'none' ? 'assistant' : 'reasoning');
      assert.ok(carrier.content.length > 0);
      if (reasoning !== 'full') assertHidden(events, thoughts);
      const first = events.at(-1).usage[0].inputTokens;
      agent.addMessage({ id: 'q2', role: 'user', content: 'What is 532 - 187?' });
      const kept = agent.clone();
      const second = await ask(agent, { reasoning });
      checkEvents(second.events);
      assert.equal(answer(agent).content, '532 - 187 = 345.');
      // The value contains the model's reasoning. If it is kept, the prompt gets longer.
      const dropped = second.events.at(-1).usage[0].inputTokens;
      const restored = (await ask(kept, { reasoning, keep_reasoning: true })).events.at(-1).usage[0].inputTokens;
      assert.ok(first < dropped && dropped < restored, `${first}, ${dropped}, ${restored} tokens`);
    });
  }

  test(`${version}: calls wait for the client, which answers them`, async () => {
    const { agent, events, heard, newMessages } = await run(
      client,
      { reasoning_seal: true, reasoning_budget: 40, tool_choice: 'required', strict_tools: true },
      { tools: [add] },
    );
    checkEvents(events);
    assertHidden(events, thoughts);
    const call = newMessages.flatMap((m) => m.toolCalls ?? [])[0];
    assert.equal(call.function.name, 'add');
    const { a, b } = JSON.parse(call.function.arguments);
    assert.deepEqual(events.at(-1).outcome, { type: 'success', ...(client === current && { pendingToolCallIds: [call.id] }) });
    assert.deepEqual(heard.find((e) => e.type === 'TOOL_CALL_START').toolCallName, 'add');
    const sealed = events.filter((e) => e.type === 'REASONING_ENCRYPTED_VALUE');
    assert.deepEqual(sealed.map((e) => e.subtype), ['tool-call']);
    assert.equal(sealed[0].entityId, call.id);
    assert.ok(types(events).lastIndexOf('TOOL_CALL_END') < types(events).indexOf('REASONING_ENCRYPTED_VALUE'));
    assert.equal(call.encryptedValue, sealed[0].encryptedValue);

    agent.addMessage({ id: 't1', role: 'tool', toolCallId: call.id, content: String(a + b) });
    const bare = agent.clone();
    const next = await ask(agent, {}, { tools: [add] });
    checkEvents(next.events);
    assert.ok(answer(agent).content.length > 0);
    // The reasoning before the call is in the prompt while the call is pending. Without its sealed values it is not.
    // The server remembers the reasoning by the id of the call.
    const renamed = JSON.stringify(bare.messages).replaceAll(call.id, 'c1');
    bare.setMessages(JSON.parse(renamed, (key, value) => (key === 'encryptedValue' ? undefined : value)));
    const without = await ask(bare, {}, { tools: [add] });
    assert.ok(without.events.at(-1).usage[0].inputTokens < next.events.at(-1).usage[0].inputTokens);
  });

  test(`${version}: a specialist reasons first`, async () => {
    const delegation = { agent_prompt: 'You check sums, digit by digit.' };
    const { agent, events } = await run(client, { reasoning: 'full', delegation });
    checkEvents(events);
    assert.equal(said(agent, 'assistant'), '17 + 25 = 42.');
    const ids = events.filter((e) => e.type.startsWith('SUBAGENT_')).map((e) => [e.type, e.subagentRunId]);
    if (client === current) {
      assert.deepEqual(ids, [['SUBAGENT_STARTED', ids[0][1]], ['SUBAGENT_FINISHED', ids[0][1]]]);
      assert.deepEqual(events.find((e) => e.type === 'SUBAGENT_FINISHED').outcome, { type: 'success' });
      const theirs = agent.messages.filter((m) => m.role === 'reasoning' && m.subagentRunId === ids[0][1]);
      assert.equal(theirs.length, 1);
      assert.match(theirs[0].content, /17 \+ 25 = 42\.$/);
      assert.equal(agent.messages.filter((m) => m.role === 'reasoning').length, 2);
    } else {
      assert.deepEqual(ids, []); // this version does not know subagents
      assert.match(said(agent, 'reasoning'), /17 \+ 25 = 42\./);
    }

    // The client sends everything back. Each turn has its own id.
    agent.addMessage({ id: 'q2', role: 'user', content: 'What is 532 - 187?' });
    const next = await ask(agent, { reasoning: 'full', delegation });
    checkEvents(next.events);
    assert.equal(answer(agent).content, '532 - 187 = 345.');
    if (client === current) assert.notEqual(next.events.find((e) => e.type === 'SUBAGENT_STARTED').subagentRunId, ids[0][1]);

    for (const reasoning of ['none', 'summary']) {
      const { agent, events } = await run(client, { reasoning, delegation });
      checkEvents(events);
      assertHidden(events, thoughts);
      assert.ok(!JSON.stringify(events).includes('digit by digit'));
      assert.equal(said(agent, 'assistant'), '17 + 25 = 42.');
      assert.equal(agent.messages.filter((m) => m.role === 'reasoning').length, reasoning === 'none' ? 0 : 1);
    }
  });

  test(`${version}: a specialist whose work is shown, and one that the model calls`, async () => {
    const shown = await run(client, { delegation: { agent_prompt: 'You check sums.', mark_intermediate: false } });
    checkEvents(shown.events);
    assert.equal(shown.agent.messages.filter((m) => m.role === 'assistant').length, 2);
    const asked = newAgent(client, [{ ...question, content: 'Ask a specialist: what is 17 + 25?' }]);
    const called = await ask(asked, { reasoning: 'full', delegation: { allow: true } });
    checkEvents(called.events);
    assert.equal(answer(called.agent).content, '17 + 25 = 42.');
    assert.ok(!types(called.events).includes('TOOL_CALL_START'));
    if (client === current) assert.ok(types(called.events).includes('SUBAGENT_FINISHED'));
    await assert.rejects(run(client, { tool_choice: 'required' }), /tool_choice/);
  });

  test(`${version}: a misplaced sealed value is dropped with a warning`, async () => {
    const { agent } = await run(client, { reasoning: 'full', reasoning_seal: true });
    agent.addMessage({ id: 'q2', role: 'user', content: 'What is 532 - 187?' });
    const value = agent.messages.find((m) => m.encryptedValue).encryptedValue;
    const altered = value.slice(0, 100) + (value[100] === 'A' ? 'B' : 'A') + value.slice(101);
    for (const [code, messages, options] of [
      ['sealed_tampered', agent.messages.map((m) => (m.encryptedValue ? { ...m, encryptedValue: altered } : m)), { threadId: agent.threadId }],
      ['sealed_foreign', agent.messages.map((m) => (m.id === question.id ? { ...m, content: 'What is 18 + 25?' } : m)), { threadId: agent.threadId }],
      ['sealed_foreign', agent.messages, { threadId: 'another' }],
    ]) {
      const moved = newAgent(client, messages, options);
      const heard = [];
      await moved.runAgent({}, { onCustomEvent: ({ event }) => void heard.push(event.value) });
      assert.equal(heard.length, 1);
      assert.equal(heard[0].code, 'sealed_dropped');
      assert.match(heard[0].message, /^messages\[1\]\.encryptedValue was left out /);
      assert.ok(heard[0].message.includes(code));
      assert.ok(moved.messages.length > messages.length);
    }
  });

  test(`${version}: a refused request rejects the run with status, code and field`, async () => {
    const failed = async (props, more = {}) => {
      try {
        await run(client, props, more);
      } catch (error) {
        return error;
      }
      assert.fail('the run succeeded');
    };
    for (const [status, code, param, props, more] of [
      [400, 'invalid_value', 'forwardedProps.reasoning', { reasoning: 'all' }],
      [400, 'unsupported_value', 'forwardedProps.reasoning_encrypt', { reasoning_encrypt: true }],
      [400, 'invalid_value', 'forwardedProps.chunks', { chunks: true, legacy_thinking: true }],
      [400, 'invalid_value', 'resume[0].interruptId', {}, { resume: [{ interruptId: 'i', status: 'resolved' }] }],
      [404, 'model_not_found', 'model', { model: 'nothing' }],
    ]) {
      const error = await failed(props, more);
      assert.equal(error.status, status);
      assert.equal(error.payload.code, code);
      assert.equal(error.payload.param, param);
    }
  });

  test(`${version}: a run ends when its client leaves`, async () => {
    const agent = newAgent(client, [{ id: 'q', role: 'user', content: 'What is 532 - 187?' }]);
    await server.cut(60, () =>
      agent.runAgent({ forwardedProps: { ...greedy, reasoning: 'full' } }, { onReasoningMessageContentEvent: () => agent.abortRun() }).catch(() => {}),
    );
  });

  test(`${version}: several turns of one agent have separate messages`, async () => {
    const agent = newAgent(client);
    await ask(agent, { reasoning: 'full', reasoning_seal: true });
    agent.addMessage({ id: 'q2', role: 'user', content: 'What is 532 - 187?' });
    await ask(agent, { reasoning: 'full', reasoning_seal: true });
    assert.deepEqual(agent.messages.map((m) => m.role), ['user', 'reasoning', 'assistant', 'user', 'reasoning', 'assistant']);
    assert.equal(new Set(agent.messages.map((m) => m.id)).size, 6);
    assert.equal(said(agent, 'assistant'), '17 + 25 = 42.532 - 187 = 345.');
  });

  test(`${version}: old events for old clients`, async () => {
    process.env.SUPPRESS_TRANSFORMATION_WARNINGS = 'true';
    try {
      const { agent, events } = await run(client, { reasoning: 'full', legacy_thinking: true });
      assert.deepEqual(types(events).filter((type, i, all) => type !== all[i - 1]), [
        'RUN_STARTED', 'THINKING_START', 'THINKING_TEXT_MESSAGE_START', 'THINKING_TEXT_MESSAGE_CONTENT', 'THINKING_TEXT_MESSAGE_END', 'THINKING_END',
        'TEXT_MESSAGE_START', 'TEXT_MESSAGE_CONTENT', 'TEXT_MESSAGE_END', 'RUN_FINISHED',
      ]);
      assert.equal(events.filter((e) => e.type === 'THINKING_TEXT_MESSAGE_CONTENT').map((e) => e.delta).join(''), thoughts);
      const ids = events.filter((e) => e.type.startsWith('THINKING_')).map((e) => e.messageId);
      assert.ok(ids[0] && new Set(ids).size === 1);
      checkOrder(events);
      for (const reasoning of ['none', 'summary']) {
        const { agent, events } = await run(client, { reasoning, legacy_thinking: true });
        const kept = client === current && reasoning === 'summary'; // the older client makes no message of these events
        assert.deepEqual(roles(agent), kept ? ['user', 'reasoning', 'assistant'] : ['user', 'assistant']);
        assert.ok(types(events).indexOf('THINKING_START') < types(events).indexOf('TEXT_MESSAGE_START'));
        checkOrder(events);
      }
      assert.equal(said(agent, 'assistant'), '17 + 25 = 42.');
    } finally {
      delete process.env.SUPPRESS_TRANSFORMATION_WARNINGS;
    }
  });
}

test('requests match the schemas, and context and state reach the model', async () => {
  const agent = newAgent(current);
  let input;
  agent.use((given, next) => {
    input = given;
    return next.run(given);
  });
  const plain = await ask(agent);
  RunAgentInputSchema.parse(input);
  const context = [{ description: 'What the user works on', value: 'A calculator' }];
  const told = await run(current, {}, { context });
  assert.ok(told.events.at(-1).usage[0].inputTokens > plain.events.at(-1).usage[0].inputTokens);
  const shared = await ask(newAgent(current, [question], { initialState: { cart: ['tea'] } }));
  assert.ok(shared.events.at(-1).usage[0].inputTokens > plain.events.at(-1).usage[0].inputTokens);
});

test('a key sees only what it may see', async () => {
  const guarded = await Server.withKeys({ id: 'modest', reasoning: 'summary' }, { id: 'whole', reasoning: 'full' });
  try {
    const agentOf = (id) =>
      newAgent(current, [question], { url: guarded.url + '/agui', headers: id ? { Authorization: `Bearer ${keyOf(id)}` } : {} });
    const failed = (id, props) =>
      ask(agentOf(id), props).then(
        () => assert.fail('the run succeeded'),
        (error) => error,
      );
    const refused = await failed('modest', { reasoning: 'full' });
    assert.equal(refused.status, 403);
    assert.equal(refused.payload.code, 'permission_denied');
    assert.match(refused.payload.message, /reasoning:full/);
    assert.equal((await failed('', {})).status, 401);
    assert.ok(said((await ask(agentOf('modest'), { reasoning: 'summary' })).agent, 'reasoning').length > 0);
    // A sealed value belongs to the key that it was made for.
    const { agent } = await ask(agentOf('whole'), { reasoning: 'full', reasoning_seal: true });
    const other = newAgent(current, agent.messages, { url: agent.url, threadId: agent.threadId, headers: { Authorization: `Bearer ${keyOf('modest')}` } });
    const heard = [];
    await other.runAgent({}, { onCustomEvent: ({ event }) => void heard.push(event.value.code) });
    assert.deepEqual(heard, ['sealed_dropped']);
  } finally {
    await guarded.stop();
  }
});

test('the model delegates if the operator allows it, and only the specialist fails if the context is full', async () => {
  const small = await Server.start('--allow-delegation', '--ctx-size', '350');
  try {
    for (const client of [current, older]) {
      const agent = new client.HttpAgent({ url: small.url + '/agui', fetch: wire.fetch, initialMessages: [question] });
      const { events } = await ask(agent, { seed: 2, temperature: 1, reasoning_effort: 'none', tool_choice: 'required' });
      checkEvents(events);
      assert.equal(events.at(-1).type, 'RUN_FINISHED');
      assert.ok(said(agent, 'assistant').length > 0);
      const theirs = events.filter((e) => e.type.startsWith('SUBAGENT_'));
      assert.deepEqual(types(theirs), client === current ? ['SUBAGENT_STARTED', 'SUBAGENT_ERROR'] : []);
      if (client === current) assert.equal(theirs[1].code, 'delegation_failed');
    }
    const refusing = new current.HttpAgent({ url: small.url + '/agui', fetch: wire.fetch, initialMessages: [question] });
    await assert.rejects(ask(refusing, { tool_choice: 'required', delegation: { allow: false } }), /tool_choice/);
  } finally {
    await small.stop();
  }
});
