// Tests with @anthropic-ai/sdk against the Messages API.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { z } from 'zod';
import { Server, keyOf } from './lib/server.mjs';
import { Wire, assertHidden, longestShared } from './lib/wire.mjs';

const question = { role: 'user', content: 'What is 17 + 25?' };
const plain = { model: 'demo', max_tokens: 400, temperature: 0, messages: [question] };
const thinking = { type: 'enabled', budget_tokens: 300 };
const Operands = z.object({ a: z.number().int().min(0).max(999), b: z.number().int().min(0).max(999) });
const add = { name: 'add', description: 'Adds two numbers', strict: true, input_schema: z.toJSONSchema(Operands) };
// Without reasoning the model makes its call at once.
const calling = { ...plain, thinking: { type: 'disabled' }, tools: [add], tool_choice: { type: 'tool', name: 'add' } };

let server, client;
const wire = new Wire();
before(async () => {
  server = await Server.start();
  client = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0, fetch: wire.fetch });
});
after(() => server.stop());

const text = (message) => message.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
const types = (message) => message.content.map((b) => b.type);

// comparable returns a message without what differs between equal messages: its id, its signatures, and the cached
// tokens. It also drops what was in effect, because the client does not keep this of a stream.
function comparable({ id, content, usage, _request_id, parsed_output, reasoning_info, ...rest }) {
  assert.match(id, /^msg_/);
  return {
    ...rest,
    content: content.map(({ signature, data, id, ...block }) => ({ ...block, signed: Boolean(signature ?? data) })),
    prompt: usage.input_tokens + usage.cache_read_input_tokens,
    output: usage.output_tokens,
  };
}

test('a message', async () => {
  const m = await client.messages.create(plain);
  assert.equal(m.type, 'message');
  assert.equal(m.role, 'assistant');
  assert.equal(m.model, 'demo');
  assert.equal(m.stop_reason, 'end_turn');
  assert.equal(m.stop_sequence, null);
  assert.deepEqual(m.content, [{ type: 'text', text: '17 + 25 = 42.' }]);
  assert.ok(m.usage.input_tokens + m.usage.cache_read_input_tokens > 20);
  assert.ok(m.usage.output_tokens > m.usage.output_tokens_details.thinking_tokens);
  assert.ok(m.usage.output_tokens_details.thinking_tokens > 10);
  assert.match(m._request_id, /^req_/);
});

for (const [name, params] of Object.entries({
  'plain': plain,
  'with thinking': { ...plain, thinking },
  'with adaptive thinking': { ...plain, thinking: { type: 'adaptive' }, output_config: { effort: 'low' } },
  'with summarized thinking': { ...plain, thinking: { ...thinking, display: 'summarized' } },
  'with omitted thinking': { ...plain, thinking: { ...thinking, display: 'omitted' } },
  'with a system prompt': { ...plain, system: [{ type: 'text', text: 'Be brief.' }] },
  'with a call': calling,
  'cut off': { ...plain, thinking, max_tokens: 20 },
  'stopped': { ...plain, stop_sequences: ['= '] },
})) {
  test(`a stream gives the same message, ${name}`, async () => {
    const whole = await client.messages.create(params);
    const stream = client.messages.stream(params);
    const heard = { text: '', thinking: '', signature: '', json: '' };
    stream.on('text', (delta) => (heard.text += delta));
    stream.on('thinking', (delta) => (heard.thinking += delta));
    stream.on('signature', (value) => (heard.signature += value));
    stream.on('inputJson', (delta) => (heard.json += delta));
    const streamed = await stream.finalMessage();
    assert.deepEqual(comparable(streamed), comparable(whole));
    assert.equal(heard.text, text(whole));
    assert.equal(heard.thinking, whole.content.filter((b) => b.type === 'thinking').map((b) => b.thinking).join(''));
    const call = whole.content.find((b) => b.type === 'tool_use');
    if (call) assert.deepEqual(JSON.parse(heard.json), call.input);
  });
}

test('the events of a stream come in order', async () => {
  const events = [];
  for await (const event of await client.messages.create({ ...plain, thinking, stream: true })) events.push(event);
  assert.equal(events[0].type, 'message_start');
  assert.deepEqual(events[0].message.content, []);
  assert.ok(events[0].message.usage.input_tokens > 0);
  assert.equal(events.at(-2).type, 'message_delta');
  assert.equal(events.at(-2).delta.stop_reason, 'end_turn');
  assert.ok(events.at(-2).usage.output_tokens > 0);
  assert.equal(events.at(-1).type, 'message_stop');
  let open = -1;
  for (const e of events.slice(1, -2)) {
    switch (e.type) {
      case 'content_block_start':
        assert.equal(e.index, ++open);
        break;
      case 'content_block_delta':
      case 'content_block_stop':
        assert.equal(e.index, open);
        break;
      default:
        assert.equal(e.type, 'ping');
    }
  }
  assert.equal(open, 1);
});

test('without thinking no reasoning is in any field', async () => {
  const { content } = await client.messages.create({ ...plain, thinking });
  const reasoning = content.find((b) => b.type === 'thinking').thinking;
  wire.take();
  await client.messages.create(plain);
  assertHidden(wire.take(), reasoning);
  for await (const _ of await client.messages.create({ ...plain, stream: true })) { /* the wire keeps it */ }
  assertHidden(wire.take(), reasoning);
  const omitted = await client.messages.create({ ...plain, thinking: { ...thinking, display: 'omitted' } });
  assert.deepEqual(types(omitted), ['thinking', 'text']);
  assert.equal(omitted.content[0].thinking, '');
  assert.ok(omitted.content[0].signature);
  assertHidden(wire.take(), reasoning);
  const summarized = await client.messages.create({ ...plain, thinking: { ...thinking, display: 'summarized' } });
  assert.deepEqual(types(summarized), ['thinking', 'text']);
  const summary = summarized.content[0].thinking;
  assert.ok(summary.length > 0);
  assert.ok(longestShared(summary, reasoning) <= 12, summary);
  assertHidden(wire.take(), reasoning);
});

test('thinking: budget, effort and none', async () => {
  const count = async (params) => (await client.messages.create({ ...plain, ...params })).usage.output_tokens_details.thinking_tokens;
  assert.equal(await count({ thinking: { type: 'disabled' } }), 0);
  assert.ok((await count({ thinking: { type: 'enabled', budget_tokens: 10 } })) <= 10);
  const [low, high] = [await count({ output_config: { effort: 'low' } }), await count({ output_config: { effort: 'high' } })];
  assert.ok(low < high, `${low} tokens at low, ${high} at high`);
});

test('stop reasons', async () => {
  const cut = await client.messages.create({ ...plain, max_tokens: 5 });
  assert.equal(cut.stop_reason, 'max_tokens');
  assert.ok(cut.usage.output_tokens <= 5);
  const stopped = await client.messages.create({ ...plain, stop_sequences: ['nothing', ' ='] });
  assert.equal(stopped.stop_reason, 'stop_sequence');
  assert.equal(stopped.stop_sequence, ' =');
  assert.equal(text(stopped), '17 + 25');
});

test('a conversation continues with its thinking', async () => {
  const first = await client.messages.create({ ...plain, thinking });
  const messages = [question, { role: 'assistant', content: first.content }, { role: 'user', content: 'What is 532 - 187?' }];
  const second = await client.messages.create({ ...plain, thinking, messages });
  assert.equal(text(second), '532 - 187 = 345.');
  assert.ok(second.usage.cache_read_input_tokens > 0);
  const counted = await client.messages.countTokens({ model: 'demo', thinking, messages });
  assert.equal(counted.input_tokens, second.usage.input_tokens + second.usage.cache_read_input_tokens);
});

test('a signature is accepted only in its place', async () => {
  const { content } = await client.messages.create({ ...plain, thinking });
  const again = (blocks, ask = question) => client.messages.create({
    ...plain, thinking, messages: [ask, { role: 'assistant', content: blocks }, { role: 'user', content: 'What is 2 + 2?' }],
  });
  const dropped = async (answer, reason) => {
    const { warnings } = await answer;
    assert.equal(warnings.length, 1);
    assert.equal(warnings[0].code, 'sealed_dropped');
    assert.match(warnings[0].message, reason);
  };
  assert.equal((await again(content)).warnings, undefined);
  await again(content.filter((b) => b.type !== 'thinking'));
  await dropped(again(content, { role: 'user', content: 'What is 18 + 25?' }), /sealed_foreign/);
  const [block, ...others] = content;
  const middle = block.signature.length >> 1;
  const other = block.signature[middle] === 'A' ? 'B' : 'A';
  const altered = { ...block, signature: block.signature.slice(0, middle) + other + block.signature.slice(middle + 1) };
  await dropped(again([altered, ...others]), /sealed_tampered/);
});

test('a call, its result, and the turn after it', async () => {
  const first = await client.messages.create(calling);
  assert.equal(first.stop_reason, 'tool_use');
  const call = first.content.find((b) => b.type === 'tool_use');
  assert.equal(call.name, 'add');
  assert.ok(call.id);
  Operands.parse(call.input);
  const second = await client.messages.create({
    ...calling, tool_choice: { type: 'none' },
    messages: [question, { role: 'assistant', content: first.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '42' }] }],
  });
  assert.equal(second.stop_reason, 'end_turn');
  assert.ok(text(second).length > 0);
});

test('the thinking of a pending call goes back under its signature', async () => {
  const first = await client.messages.create({ ...calling, thinking: { type: 'enabled', budget_tokens: 16, display: 'omitted' } });
  assert.deepEqual(types(first).slice(0, 1), ['thinking']);
  const call = first.content.find((b) => b.type === 'tool_use');
  const next = (content) => ({
    model: 'demo', tools: [add], thinking: { type: 'disabled' },
    messages: [question, { role: 'assistant', content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: [{ type: 'text', text: '42' }] }] }],
  });
  const [restored, without] = await Promise.all([first.content, first.content.slice(1)].map((c) => client.messages.countTokens(next(c))));
  assert.ok(restored.input_tokens > without.input_tokens, `${restored.input_tokens} tokens with the thinking, ${without.input_tokens} without`);
});

test('any tool, and one call at most', async () => {
  const m = await client.messages.create({ ...calling, tool_choice: { type: 'any', disable_parallel_tool_use: true } });
  assert.equal(m.stop_reason, 'tool_use');
  assert.equal(m.content.filter((b) => b.type === 'tool_use').length, 1);
});

test('the client runs a tool', async () => {
  const heard = [];
  const tool = betaZodTool({ name: 'add', description: 'Adds two numbers', inputSchema: Operands, run: (args) => (heard.push(args), '42') });
  const runner = client.beta.messages.toolRunner({ ...calling, tools: [{ ...tool, strict: true }], max_iterations: 1 });
  const last = await runner.runUntilDone();
  assert.equal(last.stop_reason, 'tool_use');
  const { content } = await runner.generateToolResponse();
  assert.equal(content[0].tool_use_id, last.content.find((b) => b.type === 'tool_use').id);
  assert.equal(content[0].content, '42');
  assert.deepEqual(heard[0], last.content.find((b) => b.type === 'tool_use').input);
});

test('a thread of the client continues with whole conversations', async () => {
  const thread = client.beta.messages.thread({ model: 'demo', max_tokens: 400, temperature: 0, thinking, unsupportedRequestBehavior: 'continue_unthreaded' });
  const user = (content) => ({ role: 'user', content });
  assert.equal(text(await thread.send(question)), '17 + 25 = 42.');
  assert.equal(text(await thread.send(user('What is 532 - 187?'))), '532 - 187 = 345.');
  assert.equal(text(await thread.stream(user('What is 17 + 25?')).finalMessage()), '17 + 25 = 42.');
  assert.equal(thread.messages.length, 6);
});

test('tools of Anthropic are dropped with a warning', async () => {
  const m = await client.messages.create({ ...plain, tools: [{ type: 'web_search_20250305', name: 'web_search' }] });
  assert.equal(text(m), '17 + 25 = 42.');
  assert.equal(m.warnings[0].code, 'unknown_tool_type');
});

test('an answer in the form of a schema, parsed', async () => {
  const format = zodOutputFormat(z.object({ sum: z.number().int().min(0).max(1998), sure: z.boolean() }));
  const m = await client.messages.parse({ ...plain, output_config: { format } });
  assert.deepEqual(Object.keys(m.parsed_output), ['sum', 'sure']);
  assert.equal(typeof m.parsed_output.sure, 'boolean');
});

test('errors have the classes of the client', async () => {
  await assert.rejects(client.messages.create({ ...plain, model: 'none' }), (e) => {
    assert.ok(e instanceof Anthropic.NotFoundError);
    assert.equal(e.status, 404);
    assert.equal(e.error.type, 'error');
    assert.equal(e.error.error.type, 'not_found_error');
    assert.match(e.requestID, /^req_/);
    return true;
  });
  await assert.rejects(client.messages.create({ ...plain, temperature: 7 }), (e) => {
    assert.ok(e instanceof Anthropic.BadRequestError);
    assert.equal(e.error.error.type, 'invalid_request_error');
    assert.match(e.message, /temperature/);
    return true;
  });
  await assert.rejects(client.messages.create({ ...plain, messages: [] }), Anthropic.BadRequestError);
  await assert.rejects(
    client.messages.create({ ...plain, messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: '' } }] }] }),
    (e) => e instanceof Anthropic.BadRequestError && e.message.includes('messages[0].content[0]'),
  );
  await assert.rejects(client.messages.create({ ...plain, output_config: { format: { type: 'json_schema', schema: { $dynamicRef: '#x' } } } }), Anthropic.BadRequestError);
  const stream = client.messages.stream({ ...plain, model: 'none' });
  await assert.rejects(stream.finalMessage(), Anthropic.NotFoundError);
});

test('keys, permissions and limits', async () => {
  const guarded = await Server.withKeys({ id: 'full', reasoning: 'full' }, { id: 'hidden' }, { id: 'rare', requests_per_minute: 1 });
  try {
    const as = (apiKey) => new Anthropic({ baseURL: guarded.url, apiKey, maxRetries: 0 });
    await assert.rejects(as('wrong').messages.create(plain), (e) => {
      assert.ok(e instanceof Anthropic.AuthenticationError);
      assert.equal(e.error.error.type, 'authentication_error');
      return true;
    });
    assert.deepEqual(types(await as(keyOf('full')).messages.create({ ...plain, thinking })), ['thinking', 'text']);
    await assert.rejects(as(keyOf('hidden')).messages.create({ ...plain, thinking }), Anthropic.PermissionDeniedError);
    const short = { ...plain, max_tokens: 1 };
    await as(keyOf('rare')).messages.create(short);
    await assert.rejects(as(keyOf('rare')).messages.create(short), (e) => {
      assert.ok(e instanceof Anthropic.RateLimitError);
      assert.ok(Number(e.headers.get('retry-after')) >= 1);
      return true;
    });
  } finally {
    await guarded.stop();
  }
});

test('leaving a stream frees the server', async () => {
  const long = { ...plain, thinking: { type: 'adaptive' }, output_config: { effort: 'high' }, messages: [{ role: 'user', content: 'What is 517 + 386?' }] };
  const { usage } = await client.messages.create(long);
  await server.cut(usage.output_tokens, async () => {
    const stream = client.messages.stream(long);
    stream.once('thinking', () => stream.abort());
    await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
  });
});

test('models', async () => {
  const names = [];
  for await (const m of client.models.list()) names.push(m.id);
  assert.deepEqual(names, ['demo']);
  const m = await client.models.retrieve('demo');
  assert.equal(m.type, 'model');
  assert.equal(m.display_name, 'demo');
  assert.ok(!Number.isNaN(Date.parse(m.created_at)));
  await assert.rejects(client.models.retrieve('none'), Anthropic.NotFoundError);
});
