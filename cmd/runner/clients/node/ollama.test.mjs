// Tests with Ollama's package for Node against Ollama's API.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { Ollama } from 'ollama';
import { z } from 'zod';
import { Server, atAddress, keyOf, warm } from './lib/server.mjs';
import { Wire, assertHidden, likely } from './lib/wire.mjs';

const question = { role: 'user', content: 'What is 17 + 25?' };
const chat = { model: 'demo', messages: [question], options: { temperature: 0 } };
const prompt = { model: 'demo', prompt: 'What is 17 + 25?', options: { temperature: 0 } };
const Operands = z.object({ a: z.number().int().min(0).max(999), b: z.number().int().min(0).max(999) });
const tools = [{ type: 'function', function: { name: 'add', description: 'Adds two numbers', parameters: z.toJSONSchema(Operands) } }];

let server, client;
const wire = new Wire();
before(async () => {
  server = await Server.start();
  client = new Ollama({ host: server.url, fetch: wire.fetch });
});
after(() => server.stop());

// join joins the parts of a stream.
async function join(parts) {
  const whole = { text: '', thinking: '', logprobs: [], reason: undefined, tokens: undefined };
  for await (const part of parts) {
    assert.equal(part.model, 'demo');
    assert.ok(!Number.isNaN(Date.parse(part.created_at)));
    assert.equal(whole.reason, undefined, 'something came after the end');
    whole.text += part.message?.content ?? part.response;
    whole.thinking += part.message?.thinking ?? part.thinking ?? '';
    whole.logprobs.push(...likely(part.logprobs));
    if (part.done) {
      whole.reason = part.done_reason;
      whole.tokens = [part.prompt_eval_count, part.eval_count];
    }
  }
  return whole;
}

const once = async (answer) => join([await answer]);

test('an answer', async () => {
  const a = await client.chat(chat);
  assert.equal(a.message.role, 'assistant');
  assert.equal(a.message.content, '17 + 25 = 42.');
  assert.equal(a.done, true);
  assert.equal(a.done_reason, 'stop');
  for (const figure of ['total_duration', 'prompt_eval_count', 'prompt_eval_duration', 'eval_count', 'eval_duration']) assert.ok(a[figure] > 0, figure);
  assert.ok(a.total_duration < 60e9, 'durations are in nanoseconds');
  const g = await client.generate(prompt);
  assert.equal(g.response, '17 + 25 = 42.');
  assert.equal(g.eval_count, a.eval_count);
});

for (const [name, params] of Object.entries({
  'plain': {},
  'sampled': { options: { temperature: warm(0.9), seed: 12 } },
  'with thinking': { think: true },
  'with a level': { think: 'high', options: { temperature: warm(0.9), seed: 12 } },
  'without thinking': { think: false },
  'with log probabilities': { logprobs: true, top_logprobs: 2 },
  'with a schema': { format: z.toJSONSchema(Operands) },
  'cut off': { think: true, options: { temperature: 0, num_predict: 20 } },
  'stopped': { options: { temperature: 0, stop: [' ='] } },
})) {
  test(`a stream gives the same answer, ${name}`, async () => {
    const chatted = await once(client.chat({ ...chat, ...params }));
    assert.deepEqual(await join(await client.chat({ ...chat, ...params, stream: true })), chatted);
    const generated = await once(client.generate({ ...prompt, ...params }));
    assert.deepEqual(await join(await client.generate({ ...prompt, ...params, stream: true })), generated);
    assert.deepEqual(generated, chatted);
    assert.ok(chatted.text);
  });
}

test('thinking is shown if it was requested, and in no other field', async () => {
  const { thinking, content } = (await client.chat({ ...chat, think: true })).message;
  assert.match(thinking, /17 and 25/);
  assert.equal(content, '17 + 25 = 42.');
  wire.take();
  for (const call of [() => client.chat(chat), () => client.generate(prompt)]) {
    const answer = await call();
    assert.equal(answer.thinking ?? answer.message?.thinking, undefined);
    assertHidden(wire.take(), thinking);
  }
  for (const parts of [await client.chat({ ...chat, stream: true, logprobs: true }), await client.generate({ ...prompt, stream: true })]) {
    assert.equal((await join(parts)).thinking, '');
    assertHidden(wire.take(), thinking);
  }
});

test('levels of thinking', async () => {
  const count = async (think) => (await client.chat({ ...chat, think })).eval_count;
  const [none, low, medium, high] = [await count(false), await count('low'), await count('medium'), await count('high')];
  assert.ok(none < low && low < medium && medium < high, `${none}, ${low}, ${medium}, ${high} tokens`);
});

test('options', async () => {
  const cut = await client.chat({ ...chat, options: { temperature: 0, num_predict: 6 } });
  assert.equal(cut.done_reason, 'length');
  assert.ok(cut.eval_count <= 6);
  const stopped = await client.generate({ ...prompt, options: { temperature: 0, stop: [' ='] } });
  assert.equal(stopped.response, '17 + 25');
  const wild = { temperature: 2, top_p: 1, top_k: 0, min_p: 0, num_predict: 60 };
  const think = async (seed) => (await client.chat({ ...chat, think: true, options: { ...wild, seed } })).message.thinking;
  if (!atAddress) assert.equal(await think(1), await think(1));
  assert.notEqual(await think(1), await think(2));
});

test('answers in a format', async () => {
  const answer = await client.chat({ ...chat, format: z.toJSONSchema(Operands), think: 'low' });
  Operands.parse(JSON.parse(answer.message.content));
  assert.ok(answer.message.thinking);
  const hidden = await client.generate({ ...prompt, format: z.toJSONSchema(Operands), think: false });
  Operands.parse(JSON.parse(hidden.response));
  const any = await client.chat({ ...chat, format: 'json', options: { temperature: 0, num_predict: 200 } });
  assert.match(any.message.content, /^\{/);
  if (any.done_reason === 'stop') JSON.parse(any.message.content);
});

test('tools and the result of a call', async () => {
  const offered = await client.chat({ ...chat, tools });
  assert.ok(offered.message.content || offered.message.tool_calls);
  const called = { role: 'assistant', content: '', thinking: 'I call the tool.', tool_calls: [{ function: { name: 'add', arguments: { a: 17, b: 25 } } }] };
  const after = await client.chat({ ...chat, tools, messages: [question, called, { role: 'tool', tool_name: 'add', content: '42' }] });
  assert.ok(after.message.content || after.message.tool_calls);
  assert.ok(after.prompt_eval_count > offered.prompt_eval_count);
  const without = await client.chat({ ...chat, tools, messages: [question, { ...called, thinking: undefined }, { role: 'tool', tool_name: 'add', content: '42' }] });
  assert.ok(after.prompt_eval_count > without.prompt_eval_count, 'the thinking of a pending call counts');
});

test('a conversation continues', async () => {
  const first = await client.chat({ ...chat, think: true });
  const second = await client.chat({ ...chat, messages: [{ role: 'system', content: 'Be brief.' }, question, first.message, { role: 'user', content: 'What is 532 - 187?' }] });
  assert.equal(second.message.content, '532 - 187 = 345.');
  const system = await client.generate({ ...prompt, system: 'Be brief.' });
  assert.equal(system.response, '17 + 25 = 42.');
});

test('a raw prompt', async () => {
  const raw = await client.generate({ ...prompt, raw: true, prompt: '<|start|>user<|message|>What is 17 + 25?<|end|><|start|>assistant<|channel|>final<|message|>', options: { temperature: 0, num_predict: 40 } });
  assert.match(raw.response, /^17 \+ 25 = /);
});

test('embeddings', async () => {
  if (atAddress) return assert.rejects(client.embed({ model: 'demo', input: 'one apple' }), (e) => e.status_code === 400 && /does not give embeddings/.test(e.error));
  const { embeddings, prompt_eval_count } = await client.embed({ model: 'demo', input: ['one apple', 'two apples'] });
  assert.equal(embeddings.length, 2);
  for (const e of embeddings) assert.ok(Math.abs(Math.hypot(...e) - 1) < 1e-3);
  assert.ok(prompt_eval_count > 0);
  const one = await client.embed({ model: 'demo', input: 'one apple' });
  for (const [i, x] of one.embeddings[0].entries()) assert.ok(Math.abs(x - embeddings[0][i]) < 1e-3);
  const { embedding } = await client.embeddings({ model: 'demo', prompt: 'one apple' });
  assert.equal(embedding.length, one.embeddings[0].length);
});

test('models', async () => {
  const { models } = await client.list();
  assert.deepEqual(models.map((m) => m.name), ['demo']);
  assert.ok(models[0].size > 1e6);
  assert.ok(!Number.isNaN(Date.parse(models[0].modified_at)));
  const shown = await client.show({ model: 'demo:latest' });
  for (const capability of ['completion', 'tools', 'thinking']) assert.ok(shown.capabilities.includes(capability), capability);
  assert.equal(shown.details.format, 'gguf');
  assert.equal(shown.model_info['general.architecture'], 'gpt-oss');
  assert.deepEqual((await client.ps()).models.map((m) => m.name), ['demo']);
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+/);
});

test('errors', async () => {
  const refused = (call, status, message) => assert.rejects(call, (e) => {
    assert.equal(e.name, 'ResponseError');
    assert.equal(e.status_code, status);
    assert.match(e.error, message);
    return true;
  });
  await refused(client.chat({ ...chat, model: 'none' }), 404, /none/);
  await refused(client.chat({ ...chat, model: 'none', stream: true }), 404, /none/);
  await refused(client.generate({ ...prompt, model: 'none' }), 404, /none/);
  await refused(client.show({ model: 'none' }), 404, /none/);
  await refused(client.chat({ ...chat, think: 'much' }), 400, /think/);
  await refused(client.chat({ ...chat, options: { temperature: -1 } }), 400, /options\.temperature/);
  await refused(client.chat({ ...chat, format: { $dynamicRef: '#x' } }), 400, /dynamicRef/);
  await refused(client.chat({ ...chat, messages: [{ ...question, images: ['aGk='] }] }), 400, /images/);
  await refused(client.pull({ model: 'none' }), 403, /--models-write/);
  await refused(client.delete({ model: 'demo' }), 403, /--models-write/);
});

test('keys, permissions and limits', async () => {
  const guarded = await Server.withKeys({ id: 'full', reasoning: 'full' }, { id: 'hidden' }, { id: 'rare', requests_per_minute: 1 });
  try {
    const as = (key) => new Ollama({ host: guarded.url, headers: { Authorization: `Bearer ${key}` } });
    const short = { ...chat, options: { num_predict: 1 } };
    await assert.rejects(as('wrong').chat(short), (e) => e.status_code === 401);
    assert.ok((await as(keyOf('full')).chat({ ...chat, think: true })).message.thinking);
    await assert.rejects(as(keyOf('hidden')).chat({ ...chat, think: true }), (e) => e.status_code === 403);
    await as(keyOf('rare')).chat(short);
    await assert.rejects(as(keyOf('rare')).chat(short), (e) => e.status_code === 429);
  } finally {
    await guarded.stop();
  }
});

test('leaving a stream frees the server', async () => {
  const long = { ...chat, think: 'high', messages: [{ role: 'user', content: 'What is 517 + 386?' }] };
  const { eval_count } = await client.chat(long);
  await server.cut(eval_count, async () => {
    const stream = await client.chat({ ...long, stream: true });
    await assert.rejects(async () => {
      for await (const part of stream) if (part.message.thinking) stream.abort();
    }, { name: 'AbortError' });
  });
});
