// Tests with OpenAI's package for Node against the Responses API.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import OpenAI from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { Server, keyOf } from './lib/server.mjs';
import { Wire, assertHidden, longestShared, likely } from './lib/wire.mjs';

const plain = { model: 'demo', temperature: 0, input: 'What is 17 + 25?' };
const long = { ...plain, input: 'What is 517 + 386?', reasoning: { effort: 'high' } };
const Operands = z.object({ a: z.number().int().min(0).max(999), b: z.number().int().min(0).max(999) });
const add = zodResponsesFunction({ name: 'add', description: 'Adds two numbers', parameters: Operands });
// Without reasoning the model makes its call at once.
const calling = { ...plain, reasoning: { effort: 'none' }, tools: [add], tool_choice: { type: 'function', name: 'add' } };
const full = { ...plain, include: ['reasoning.content'] };

let server, client;
const wire = new Wire();
before(async () => {
  server = await Server.start();
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0, fetch: wire.fetch });
});
after(() => server.stop());

const create = (params) => client.responses.create(params);
const types = (response) => response.output.map((item) => item.type);
const reasoningOf = (response) => response.output.filter((item) => item.type === 'reasoning').flatMap((item) => item.content ?? []).map((part) => part.text).join('');
const summaryOf = (response) => response.output.filter((item) => item.type === 'reasoning').flatMap((item) => item.summary).map((part) => part.text).join('');

// comparable returns a response without what differs between equal responses.
const comparable = ({ output, usage, error, status, incomplete_details, model, text, tools, tool_choice, reasoning }) => ({
  output: output.map(({ id, call_id, encrypted_content, ...item }) => ({
    ...item, id: id.split('_')[0], sealed: Boolean(encrypted_content),
    ...(item.type === 'message' && { content: item.content.map((part) => ({ ...part, logprobs: likely(part.logprobs) })) }),
  })),
  usage: { ...usage, input_tokens_details: undefined },
  error, status, incomplete_details, model, text, tools, tool_choice, reasoning,
});

test('a response', async () => {
  const r = await create(plain);
  assert.equal(r.object, 'response');
  assert.match(r.id, /^resp_/);
  assert.equal(r.status, 'completed');
  assert.equal(r.error, null);
  assert.equal(r.incomplete_details, null);
  assert.deepEqual(types(r), ['message']);
  assert.equal(r.output_text, '17 + 25 = 42.');
  assert.equal(r.output[0].role, 'assistant');
  assert.equal(r.output[0].status, 'completed');
  assert.equal(r.usage.total_tokens, r.usage.input_tokens + r.usage.output_tokens);
  assert.ok(r.usage.output_tokens_details.reasoning_tokens > 10);
});

for (const [name, params] of Object.entries({
  'plain': plain,
  'sampled': { ...full, temperature: 0.9, seed: 5 },
  'with reasoning': full,
  'with a summary': { ...plain, reasoning: { summary: 'auto' } },
  'with sealed reasoning': { ...plain, store: false, include: ['reasoning.encrypted_content'] },
  'with summary and sealed reasoning': { ...plain, reasoning: { summary: 'detailed' }, include: ['reasoning.encrypted_content'] },
  'with instructions': { ...plain, instructions: 'Be brief.', metadata: { a: 'b' } },
  'with log probabilities': { ...plain, include: ['message.output_text.logprobs'], top_logprobs: 2 },
  'with a call': calling,
  'with a schema': { ...plain, text: { format: zodTextFormat(Operands, 'operands') } },
  'cut off': { ...full, max_output_tokens: 30 },
})) {
  test(`a stream gives the same response, ${name}`, async () => {
    const whole = await create(params);
    const stream = client.responses.stream(params);
    let text = '', json = '', summary = '', number = 0;
    let open, items = 0;
    for await (const e of stream) {
      assert.equal(e.sequence_number, number++);
      if (e.type === 'response.output_item.added') {
        assert.equal(open, undefined, 'an item finishes before the next begins');
        assert.equal(open = e.output_index, items++);
      }
      if ('output_index' in e) assert.equal(e.output_index, open, `${e.type} outside of its item`);
      if (e.type === 'response.output_item.done') open = undefined;
      if ('item_id' in e) assert.ok(e.item_id);
      if (e.type === 'response.output_text.delta') text += e.delta;
      if (e.type === 'response.function_call_arguments.delta') json += e.delta;
      if (e.type === 'response.reasoning_summary_text.delta') summary += e.delta;
    }
    const final = await stream.finalResponse();
    const strip = (r) => JSON.parse(JSON.stringify(comparable(r), (key, value) => (/^(parsed|parsed_arguments)$/.test(key) ? undefined : value)));
    assert.deepEqual(strip(final), strip(whole));
    assert.equal(text, whole.output_text);
    assert.equal(summary, summaryOf(whole));
    assert.equal(json, whole.output.find((item) => item.type === 'function_call')?.arguments ?? '');
  });
}

test('the events of a stream come in order', async () => {
  const seen = [];
  for await (const e of await create({ ...full, stream: true })) if (e.type !== seen.at(-1)) seen.push(e.type);
  assert.deepEqual(seen, [
    'response.created', 'response.in_progress',
    'response.output_item.added', 'response.content_part.added', 'response.reasoning_text.delta', 'response.reasoning_text.done', 'response.content_part.done', 'response.output_item.done',
    'response.output_item.added', 'response.content_part.added', 'response.output_text.delta', 'response.output_text.done', 'response.content_part.done', 'response.output_item.done',
    'response.completed',
  ]);
  const called = [];
  for await (const e of await create({ ...calling, stream: true })) if (e.type !== called.at(-1)) called.push(e.type);
  assert.deepEqual(called, [
    'response.created', 'response.in_progress',
    'response.output_item.added', 'response.function_call_arguments.delta', 'response.function_call_arguments.done', 'response.output_item.done',
    'response.completed',
  ]);
  const summed = [];
  for await (const e of await create({ ...plain, reasoning: { summary: 'auto' }, stream: true })) if (e.type.includes('reasoning') && e.type !== summed.at(-1)) summed.push(e.type);
  assert.deepEqual(summed, ['response.reasoning_summary_part.added', 'response.reasoning_summary_text.delta', 'response.reasoning_summary_text.done', 'response.reasoning_summary_part.done']);
});

test('reasoning that was not requested is in no field', async () => {
  const reasoning = reasoningOf(await create(full));
  assert.match(reasoning, /17 and 25/);
  wire.take();
  for (const params of [plain, { ...plain, include: ['message.output_text.logprobs'], top_logprobs: 5 }, { ...plain, reasoning: { effort: 'medium' } }, { ...plain, include: ['reasoning.encrypted_content'] }]) {
    const r = await create(params);
    assertHidden(wire.take(), reasoning);
    assert.equal(reasoningOf(await client.responses.retrieve(r.id)), '');
    assertHidden(wire.take(), reasoning);
    for await (const _ of await create({ ...params, stream: true })) { /* the wire keeps it */ }
    assertHidden(wire.take(), reasoning);
  }
  const summary = summaryOf(await create({ ...plain, reasoning: { summary: 'concise' } }));
  assert.ok(summary);
  assert.ok(longestShared(summary, reasoning) <= 12, summary);
  assertHidden(wire.take(), reasoning);
});

test('effort', async () => {
  const count = async (effort) => (await create({ ...plain, reasoning: { effort } })).usage.output_tokens_details.reasoning_tokens;
  assert.equal(await count('none'), 0);
  const [low, high] = [await count('low'), await count('high')];
  assert.ok(low < high, `${low} tokens at low, ${high} at high`);
});

test('the same seed gives the same response', async () => {
  const wild = { ...full, temperature: 2, top_p: 1, max_output_tokens: 100 };
  const first = await create(wild);
  assert.ok(Number.isSafeInteger(first.reasoning_info.seed), `${first.reasoning_info.seed}`);
  const again = await create({ ...wild, seed: first.reasoning_info.seed });
  assert.equal(reasoningOf(again), reasoningOf(first));
});

test('a response that was cut off says so', async () => {
  const r = await create({ ...plain, max_output_tokens: 5 });
  assert.equal(r.status, 'incomplete');
  assert.equal(r.incomplete_details.reason, 'max_output_tokens');
});

test('answers in the form of a schema, parsed', async () => {
  const format = zodTextFormat(z.object({ sum: z.number().int().min(0).max(1998), sure: z.boolean() }), 'sum');
  const r = await client.responses.parse({ ...plain, text: { format } });
  assert.deepEqual(Object.keys(r.output_parsed), ['sum', 'sure']);
  const any = await create({ ...plain, text: { format: { type: 'json_object' } }, max_output_tokens: 200 });
  assert.match(any.output_text, /^\{/);
  await assert.rejects(create({ ...plain, text: { format: { type: 'json_schema', name: 'x', schema: { $dynamicRef: '#x' } } } }), (e) => e instanceof OpenAI.BadRequestError && e.param.startsWith('text.format'));
});

test('a conversation continues from a stored response', async () => {
  const first = await create(plain);
  const second = await create({ ...plain, previous_response_id: first.id, input: 'What is 532 - 187?' });
  assert.equal(second.output_text, '532 - 187 = 345.');
  assert.equal(second.previous_response_id, first.id);
  assert.ok(second.usage.input_tokens > first.usage.input_tokens);
  assert.ok(second.usage.input_tokens_details.cached_tokens > 0);
  const alone = await create({ ...plain, input: [{ role: 'user', content: plain.input }, ...first.output, { role: 'user', content: 'What is 532 - 187?' }] });
  assert.equal(alone.usage.input_tokens, second.usage.input_tokens);
  const { data } = await client.responses.inputItems.list(second.id, { order: 'asc' });
  assert.equal(data.at(-1).content[0].text, 'What is 532 - 187?');
  await assert.rejects(create({ ...plain, previous_response_id: 'resp_none' }), (e) => e.param === 'previous_response_id' && e.status >= 400 && e.status < 500);
});

test('a call, its output, and the turn after it', async () => {
  const first = await client.responses.parse(calling);
  const call = first.output.find((item) => item.type === 'function_call');
  assert.equal(call.name, 'add');
  assert.ok(call.call_id);
  Operands.parse(call.parsed_arguments);
  const output = { type: 'function_call_output', call_id: call.call_id, output: '42' };
  const stored = await create({ ...calling, tool_choice: 'none', previous_response_id: first.id, input: [output] });
  assert.ok(stored.output_text);
  const { parsed_arguments, ...item } = call;
  const sent = await create({ ...calling, tool_choice: 'none', store: false, input: [{ role: 'user', content: plain.input }, item, output] });
  assert.equal(sent.usage.input_tokens, stored.usage.input_tokens);
});

test('without storage, the client carries sealed reasoning', async () => {
  const asked = { ...calling, store: false, reasoning: { effort: 'low' }, reasoning_budget: 16, include: ['reasoning.encrypted_content'] };
  const first = await create(asked);
  const sealed = first.output.find((item) => item.type === 'reasoning');
  assert.ok(sealed.encrypted_content);
  assert.deepEqual(sealed.summary, []);
  const call = first.output.find((item) => item.type === 'function_call');
  const question = { role: 'user', content: plain.input };
  const next = (items, first = question) =>
    create({ ...calling, tool_choice: 'none', store: false, input: [first, ...items, { type: 'function_call_output', call_id: items.at(-1).call_id, output: '42' }] });
  const restored = await next(first.output);
  const without = await next(first.output.filter((item) => item !== sealed));
  assert.ok(restored.usage.input_tokens > without.usage.input_tokens, `${restored.usage.input_tokens} tokens with the reasoning, ${without.usage.input_tokens} without`);
  assert.equal((await next(first.output, { ...question, content: 'Today is Monday. What is 17 + 25?' })).warnings, undefined);
  const dropped = async (answer, reason) => {
    const { warnings } = await answer;
    assert.equal(warnings.length, 1);
    assert.equal(warnings[0].code, 'sealed_dropped');
    assert.match(warnings[0].message, reason);
  };
  await dropped(next([sealed, { ...call, call_id: 'another' }]), /sealed_foreign/);
  await dropped(next([{ ...sealed, encrypted_content: sealed.encrypted_content.slice(0, -8) }, call]), /sealed_tampered/);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
  await next([{ type: 'reasoning', id: sealed.id, summary: [] }, call]); // empty reasoning is ignored
});

test('stored responses are retrieved and deleted', async () => {
  const r = await create(plain);
  const again = await client.responses.retrieve(r.id);
  assert.equal(again.output_text, r.output_text);
  assert.deepEqual(again.output, r.output);
  await client.responses.delete(r.id);
  await assert.rejects(client.responses.retrieve(r.id), OpenAI.NotFoundError);
  await assert.rejects(client.responses.delete(r.id), OpenAI.NotFoundError);
});

test('a response in the background is polled', async () => {
  let r = await create({ ...plain, background: true });
  assert.ok(['queued', 'in_progress', 'completed'].includes(r.status), r.status);
  for (let tries = 0; r.status !== 'completed'; tries++) {
    assert.ok(tries < 500 && ['queued', 'in_progress'].includes(r.status), r.status);
    await sleep(20);
    r = await client.responses.retrieve(r.id);
  }
  assert.equal(r.output_text, '17 + 25 = 42.');
  assert.equal(r.background, true);
});

test('a response in the background is cancelled', async () => {
  const { usage } = await create(long);
  await server.cut(usage.output_tokens, async () => {
    const { id } = await create({ ...long, background: true });
    assert.equal((await client.responses.cancel(id)).status, 'cancelled');
    assert.equal((await client.responses.retrieve(id)).status, 'cancelled');
  });
});

test('a background stream continues where it was left', async () => {
  const stream = await create({ ...full, background: true, stream: true });
  const first = [];
  for await (const e of stream) {
    first.push(e);
    if (e.type === 'response.reasoning_text.delta') break;
  }
  const id = first[0].response.id;
  const rest = [];
  for await (const e of await client.responses.retrieve(id, { stream: true, starting_after: first.at(-1).sequence_number, include: ['reasoning.content'] })) rest.push(e);
  assert.deepEqual([...first, ...rest].map((e) => e.sequence_number), [...first, ...rest].map((_, i) => i));
  assert.equal(rest.at(-1).type, 'response.completed');
  assert.equal(rest.at(-1).response.output.at(-1).content[0].text, '17 + 25 = 42.');
});

test('leaving a stream frees the server', async () => {
  const { usage } = await create(long);
  await server.cut(usage.output_tokens, async () => {
    for await (const e of await create({ ...long, include: ['reasoning.content'], stream: true })) {
      if (e.type === 'response.reasoning_text.delta') break;
    }
  });
});

test('errors have the classes of the client', async () => {
  const refused = (params, type, param) => assert.rejects(create(params), (e) => {
    assert.ok(e instanceof type, `${e}`);
    assert.equal(e.param, param);
    return true;
  });
  await refused({ ...plain, model: 'none' }, OpenAI.NotFoundError, 'model');
  await refused({ ...plain, temperature: 7000 }, OpenAI.BadRequestError, 'temperature');
  await refused({ ...plain, reasoning: { effort: 'much' } }, OpenAI.BadRequestError, 'reasoning.effort');
  await refused({ ...plain, reasoning: { summary: 'long' } }, OpenAI.BadRequestError, 'reasoning.summary');
  await refused({ ...plain, input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'data:' }] }] }, OpenAI.BadRequestError, 'input[0].content[0].type');
  await refused({ ...plain, stream: true, model: 'none' }, OpenAI.NotFoundError, 'model');
});

test('responses of other keys are not found, and permissions are enforced', async () => {
  const guarded = await Server.withKeys({ id: 'one', reasoning: 'full' }, { id: 'two' });
  try {
    const [one, two] = ['one', 'two'].map((id) => new OpenAI({ baseURL: guarded.url + '/v1', apiKey: keyOf(id), maxRetries: 0 }).responses);
    const r = await one.create(full);
    assert.ok(reasoningOf(r));
    await assert.rejects(two.retrieve(r.id), OpenAI.NotFoundError);
    await assert.rejects(two.delete(r.id), OpenAI.NotFoundError);
    await assert.rejects(two.create({ ...plain, previous_response_id: r.id }), (e) => e.param === 'previous_response_id');
    await assert.rejects(two.create(full), OpenAI.PermissionDeniedError);
  } finally {
    await guarded.stop();
  }
});
