// Tests with OpenAI's package for Node: chat completions, completions, embeddings and models.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { Server, atAddress, keyOf, warm } from './lib/server.mjs';
import { Wire, assertHidden, longestShared, texts, likely } from './lib/wire.mjs';

const question = { role: 'user', content: 'What is 17 + 25?' };
const plain = { model: 'demo', temperature: 0, messages: [question] };
const sampled = { ...plain, temperature: warm(0.8), seed: 11 };
// At this temperature and without filters, two answers are hardly ever the same.
const wild = { ...plain, messages: [{ role: 'user', content: 'zq 8?! lorem 77 ~ 4 -- ipsum' }], temperature: 2, top_p: 1, top_k: 0, min_p: 0, reasoning: 'full', max_tokens: 100 };
// An answer that takes seconds, so that a client can leave it in time.
const Numbers = z.object({ numbers: z.array(z.literal(1)).length(1000) });
const endless = { ...plain, reasoning_effort: 'none', response_format: zodResponseFormat(Numbers, 'numbers') };
const Operands = z.object({ a: z.number().int().min(0).max(999), b: z.number().int().min(0).max(999) });
const add = zodFunction({ name: 'add', description: 'Adds two numbers', parameters: Operands });
// Without reasoning the model makes its call at once.
const calling = { ...plain, reasoning_effort: 'none', tools: [add], tool_choice: { type: 'function', function: { name: 'add' } } };

let server, client;
const wire = new Wire();
before(async () => {
  server = await Server.start();
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'none', maxRetries: 0, fetch: wire.fetch });
});
after(() => server.stop());

const create = (params) => client.chat.completions.create(params);

// collect joins the chunks of a stream into a message.
async function collect(params) {
  const choices = [];
  let usage, last;
  for await (const chunk of await create({ ...params, stream: true, stream_options: { include_usage: true } })) {
    last = chunk;
    usage ??= chunk.usage;
    for (const { index, delta, finish_reason, logprobs } of chunk.choices) {
      const c = (choices[index] ??= { text: '', reasoning: '', reasoning_content: '', summary: '', calls: [], logprobs: [], finish: null });
      c.text += delta.content ?? '';
      c.reasoning += delta.reasoning ?? '';
      c.reasoning_content += delta.reasoning_content ?? '';
      c.summary += delta.reasoning_summary ?? '';
      c.logprobs.push(...likely(logprobs?.content));
      for (const { index, function: f } of delta.tool_calls ?? []) {
        const call = (c.calls[index] ??= { name: '', arguments: '' });
        call.name += f.name ?? '';
        call.arguments += f.arguments ?? '';
      }
      c.finish ??= finish_reason;
    }
  }
  assert.deepEqual(last.choices, []);
  return { choices, usage: counts(usage) };
}

// whole is collect for an answer that is not a stream.
async function whole(params) {
  const { choices, usage } = await create(params);
  return {
    choices: choices.map(({ message: m, finish_reason, logprobs }) => ({
      text: m.content ?? '', reasoning: m.reasoning ?? '', reasoning_content: m.reasoning_content ?? '', summary: m.reasoning_summary ?? '',
      calls: (m.tool_calls ?? []).map(({ function: f }) => ({ name: f.name, arguments: f.arguments })), logprobs: likely(logprobs?.content), finish: finish_reason,
    })),
    usage: counts(usage),
  };
}

// counts returns the parts of usage that do not depend on the cache.
const counts = (u) => [u.prompt_tokens, u.completion_tokens, u.total_tokens, u.completion_tokens_details.reasoning_tokens];

test('a completion', async () => {
  const c = await create(plain);
  assert.equal(c.object, 'chat.completion');
  assert.equal(c.model, 'demo');
  assert.match(c.id, /^chatcmpl-/);
  assert.ok(Math.abs(c.created - Date.now() / 1000) < 60);
  const [choice] = c.choices;
  assert.equal(choice.message.role, 'assistant');
  assert.equal(choice.message.content, '17 + 25 = 42.');
  assert.equal(choice.message.refusal, null);
  assert.equal(choice.finish_reason, 'stop');
  assert.equal(choice.logprobs, null);
  assert.equal(c.usage.total_tokens, c.usage.prompt_tokens + c.usage.completion_tokens);
  const { reasoning_tokens } = c.usage.completion_tokens_details;
  assert.ok(reasoning_tokens > 10 && reasoning_tokens < c.usage.completion_tokens);
  assert.match(c._request_id, /^req_/);
});

for (const [name, params] of Object.entries({
  'plain': plain,
  'sampled': sampled,
  ...(atAddress ? {} : { 'wild': { ...wild, seed: 11 } }),
  'with reasoning': { ...sampled, reasoning: 'full' },
  'with a summary': { ...plain, reasoning: 'summary' },
  'with choices': { ...sampled, n: 3, max_tokens: 150 },
  'with log probabilities': { ...sampled, logprobs: true, top_logprobs: 2 },
  'with a call': calling,
  'with a schema': { ...plain, response_format: zodResponseFormat(z.object({ sum: z.number().int().min(0).max(1998) }), 'sum') },
  'cut off': { ...sampled, max_tokens: 30, reasoning: 'full' },
  'stopped': { ...plain, stop: [' ='] },
})) {
  test(`a stream gives the same completion, ${name}`, async () => {
    const [streamed, once] = [await collect(params), await whole(params)];
    assert.deepEqual(streamed, once);
    assert.ok(once.choices.every((c) => c.text || c.calls.length), 'nothing was answered');
  });
}

test('the client puts a stream together', async () => {
  const stream = client.chat.completions.stream(calling);
  const names = [];
  stream.on('tool_calls.function.arguments.done', (call) => names.push(call.name));
  const c = await stream.finalChatCompletion();
  assert.deepEqual(names, ['add']);
  assert.equal(c.choices[0].finish_reason, 'tool_calls');
  Operands.parse(c.choices[0].message.tool_calls[0].function.parsed_arguments);
  const text = client.chat.completions.stream(plain);
  let heard = '';
  text.on('content', (delta) => (heard += delta));
  assert.equal(await text.finalContent(), '17 + 25 = 42.');
  assert.equal(heard, '17 + 25 = 42.');
});

test('requested reasoning', async () => {
  const { message } = (await create({ ...plain, reasoning: 'full' })).choices[0];
  assert.match(message.reasoning, /17 and 25/);
  assert.equal(message.reasoning_content, message.reasoning);
  assert.equal(message.reasoning_summary, undefined);
  assert.equal(message.content, '17 + 25 = 42.');
  const asked = (await create({ ...plain, include_reasoning: true })).choices[0].message;
  assert.equal(asked.reasoning, message.reasoning);
});

test('reasoning that was not requested is in no field', async () => {
  const { reasoning } = (await create({ ...plain, reasoning: 'full' })).choices[0].message;
  wire.take();
  for (const params of [plain, { ...plain, logprobs: true, top_logprobs: 5 }, { ...plain, reasoning: { effort: 'medium' } }, { ...plain, reasoning: { exclude: true } }, { ...plain, reasoning_seal: true }]) {
    const c = await create(params);
    assert.equal(c.choices[0].message.reasoning ?? c.choices[0].message.reasoning_content, undefined);
    assertHidden(wire.take(), reasoning);
    await collect(params);
    const values = wire.take();
    assertHidden(values, reasoning);
    for (const path of texts(values).keys()) assert.doesNotMatch(path, /\.reasoning(_content|_summary)?$/);
  }
  const { message } = (await create({ ...plain, reasoning: 'summary' })).choices[0];
  assert.ok(message.reasoning_summary);
  assert.ok(longestShared(message.reasoning_summary, reasoning) <= 12, message.reasoning_summary);
  assertHidden(wire.take(), reasoning);
});

test('effort and budget', async () => {
  const count = async (params) => (await create({ ...plain, ...params })).usage.completion_tokens_details.reasoning_tokens;
  assert.equal(await count({ reasoning_effort: 'none' }), 0);
  const [minimal, low, high] = [await count({ reasoning_effort: 'minimal' }), await count({ reasoning_effort: 'low' }), await count({ reasoning: { effort: 'high' } })];
  assert.equal(minimal, low);
  assert.ok(low > 0 && low < high, `${low} tokens at low, ${high} at high`);
  const spent = await create({ ...plain, reasoning_budget: 10 });
  assert.ok(spent.usage.completion_tokens_details.reasoning_tokens <= 10);
  assert.equal(spent.choices[0].finish_detail, 'reasoning_budget');
});

test('the same seed gives the same answer', { skip: atAddress && 'an engine at an address does not promise it' }, async () => {
  const { reasoning_info: info, choices: [first] } = await create(wild);
  const again = await create({ ...wild, seed: info.seed });
  assert.equal(again.choices[0].message.content, first.message.content);
  assert.equal(again.choices[0].message.reasoning, first.message.reasoning);
});

test('without a seed every answer has its own', async () => {
  // A quarter of all answers have the same reasoning here. It is hardly ever that of all 16.
  const answers = await Promise.all(Array.from({ length: 16 }, () => create(wild)));
  assert.equal(new Set(answers.map((answer) => answer.reasoning_info.seed)).size, 16);
  assert.ok(new Set(answers.map((answer) => answer.choices[0].message.reasoning)).size > 1, 'another seed, another answer');
});

test('stop strings and limits', async () => {
  const stopped = await create({ ...plain, stop: ' =' });
  assert.equal(stopped.choices[0].message.content, '17 + 25');
  assert.equal(stopped.choices[0].finish_reason, 'stop');
  for (const field of ['max_tokens', 'max_completion_tokens']) {
    const cut = await create({ ...plain, [field]: 8 });
    assert.equal(cut.choices[0].finish_reason, 'length');
    assert.ok(cut.usage.completion_tokens <= 8);
  }
});

test('several choices', async () => {
  const c = await create({ ...wild, n: 16 });
  assert.deepEqual(c.choices.map((choice) => choice.index), Array.from({ length: 16 }, (_, i) => i));
  assert.ok(new Set(c.choices.map((choice) => choice.message.reasoning)).size > 1, 'every choice is sampled apart');
});

test('log probabilities', async () => {
  const { choices: [{ message, logprobs }] } = await create({ ...plain, logprobs: true, top_logprobs: 3 });
  assert.equal(logprobs.content.map((t) => t.token).join(''), message.content);
  for (const t of logprobs.content) {
    assert.ok(t.logprob <= 0);
    assert.equal(Buffer.from(t.bytes).toString(), t.token);
    assert.equal(t.top_logprobs.length, 3);
    assert.equal(t.top_logprobs[0].logprob, t.logprob);
  }
});

test('biased tokens', async () => {
  const { tokens: [two] } = await (await fetch(server.url + '/tokenize', { method: 'POST', body: JSON.stringify({ content: '2' }), headers: { 'Content-Type': 'application/json' } })).json();
  const c = await create({ ...plain, logit_bias: { [two]: -100 }, reasoning: 'full', max_tokens: 200 });
  assert.doesNotMatch(c.choices[0].message.content + c.choices[0].message.reasoning, /2/);
});

test('an answer in the form of a schema, parsed', async () => {
  const Result = z.object({ steps: z.array(z.enum(['ones', 'tens'])).max(2), sum: z.number().int().min(0).max(1998), sure: z.boolean().nullable() });
  for (const effort of ['low', 'none']) {
    const c = await client.chat.completions.parse({ ...plain, reasoning_effort: effort, response_format: zodResponseFormat(Result, 'result') });
    const { message } = c.choices[0];
    assert.deepEqual(Object.keys(message.parsed), ['steps', 'sum', 'sure']);
    assert.deepEqual(Result.parse(JSON.parse(message.content)), message.parsed);
  }
});

test('an answer that is any JSON object', async () => {
  const c = await create({ ...plain, response_format: { type: 'json_object' }, max_tokens: 200 });
  if (c.choices[0].finish_reason === 'stop') assert.equal(typeof JSON.parse(c.choices[0].message.content), 'object');
  assert.match(c.choices[0].message.content, /^\{/);
});

test('an unsupported schema is refused by name', async () => {
  const schema = { type: 'object', properties: { a: { $dynamicRef: '#x' } } };
  await assert.rejects(create({ ...plain, response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    assert.match(e.param, /^response_format/);
    assert.match(e.message, /\$dynamicRef/);
    return true;
  });
});

test('a call, its result, and the turn after it', async () => {
  const first = await create(calling);
  const { message, finish_reason } = first.choices[0];
  assert.equal(finish_reason, 'tool_calls');
  const [call] = message.tool_calls;
  assert.equal(call.type, 'function');
  assert.equal(call.function.name, 'add');
  Operands.parse(JSON.parse(call.function.arguments));
  const messages = [question, message, { role: 'tool', tool_call_id: call.id, content: '42' }];
  const second = await create({ ...calling, tool_choice: 'none', messages });
  assert.equal(second.choices[0].finish_reason, 'stop');
  assert.ok(second.choices[0].message.content);
  assert.ok(second.usage.prompt_tokens > first.usage.prompt_tokens);
});

test('the client runs a function', async () => {
  let heard;
  const runner = client.chat.completions.runTools({
    ...calling, tool_choice: undefined, max_tokens: 200,
    tools: [{ type: 'function', function: { name: 'add', description: 'Adds', parse: JSON.parse, parameters: add.function.parameters, strict: true, function: (args) => ((heard = args), '42') } }],
  });
  assert.ok(await runner.finalContent());
  if (heard) Operands.parse(heard); // the model decides whether it calls the function
});

test('required calls, one at most', async () => {
  const c = await create({ ...calling, tool_choice: 'required', parallel_tool_calls: false });
  assert.equal(c.choices[0].message.tool_calls.length, 1);
});

test('tools of other types are dropped with a warning', async () => {
  const c = await create({ ...plain, tools: [{ type: 'web_search' }] });
  assert.equal(c.choices[0].message.content, '17 + 25 = 42.');
  assert.ok(c.warnings.length > 0);
});

test('a conversation continues, and its beginning is cached', async () => {
  const messages = [{ role: 'developer', content: 'Be brief.' }, question];
  const first = await create({ ...plain, messages });
  messages.push(first.choices[0].message, { role: 'user', content: [{ type: 'text', text: 'What is 532 - 187?' }] });
  const second = await create({ ...plain, messages });
  assert.equal(second.choices[0].message.content, '532 - 187 = 345.');
  assert.ok(second.usage.prompt_tokens_details.cached_tokens > 0);
});

test('sealed reasoning is accepted only in its place', async () => {
  const first = (await create({ ...plain, reasoning_seal: true })).choices[0].message;
  assert.ok(first.reasoning_encrypted_content);
  const next = { role: 'user', content: 'What is 2 + 2?' };
  const kept = await create({ ...plain, keep_reasoning: true, messages: [question, first, next] });
  const without = await create({ ...plain, keep_reasoning: true, messages: [question, { ...first, reasoning_encrypted_content: undefined }, next] });
  assert.ok(kept.usage.prompt_tokens > without.usage.prompt_tokens);
  const dropped = async (messages, reason) => {
    const { warnings } = await create({ ...plain, messages });
    assert.equal(warnings.length, 1);
    assert.equal(warnings[0].code, 'sealed_dropped');
    assert.match(warnings[0].message, reason);
  };
  await dropped([{ ...question, content: 'What is 18 + 25?' }, first, next], /sealed_foreign/);
  await dropped([question, { ...first, reasoning_encrypted_content: 'A' + first.reasoning_encrypted_content }, next], /sealed_tampered/);
});

test('errors have the classes of the client', async () => {
  const refused = (params, type, param, status) =>
    assert.rejects(create(params), (e) => {
      assert.ok(e instanceof type, `${e}`);
      assert.equal(e.param, param);
      assert.equal(e.status, status);
      assert.ok(e.code);
      return true;
    });
  await refused({ ...plain, model: 'none' }, OpenAI.NotFoundError, 'model', 404);
  await refused({ ...plain, temperature: -1 }, OpenAI.BadRequestError, 'temperature', 400);
  await refused({ ...plain, messages: [] }, OpenAI.BadRequestError, 'messages', 400);
  await refused({ ...plain, n: 100 }, OpenAI.BadRequestError, 'n', 400);
  await refused({ ...plain, reasoning: 'all' }, OpenAI.BadRequestError, 'reasoning', 400);
  await refused({ ...plain, reasoning_effort: 'much' }, OpenAI.BadRequestError, 'reasoning_effort', 400);
  await refused({ ...plain, messages: [{ role: 'user', content: 'x '.repeat(20_000) }] }, OpenAI.BadRequestError, 'messages', 400);
  await refused({ ...plain, stream: true, model: 'none' }, OpenAI.NotFoundError, 'model', 404);
});

test('keys, permissions and limits', async () => {
  const guarded = await Server.withKeys({ id: 'full', reasoning: 'full' }, { id: 'hidden' }, { id: 'rare', requests_per_minute: 1 });
  try {
    const as = (apiKey) => new OpenAI({ baseURL: guarded.url + '/v1', apiKey, maxRetries: 0 }).chat.completions;
    await assert.rejects(as('wrong').create(plain), OpenAI.AuthenticationError);
    assert.ok((await as(keyOf('full')).create({ ...plain, reasoning: 'full' })).choices[0].message.reasoning);
    await assert.rejects(as(keyOf('hidden')).create({ ...plain, reasoning: 'summary' }), OpenAI.PermissionDeniedError);
    const short = { ...plain, max_tokens: 1 };
    await as(keyOf('rare')).create(short);
    await assert.rejects(as(keyOf('rare')).create(short), (e) => e instanceof OpenAI.RateLimitError && Number(e.headers.get('retry-after')) >= 1);
  } finally {
    await guarded.stop();
  }
});

test('a full queue is answered with 429', async () => {
  const small = await Server.start('--parallel', '1', '--queue', '1');
  try {
    const chat = new OpenAI({ baseURL: small.url + '/v1', apiKey: 'none', maxRetries: 0 }).chat.completions;
    const long = { ...plain, reasoning: 'full', reasoning_effort: 'high', messages: [{ role: 'user', content: 'What is 517 + 386?' }] };
    const all = await Promise.allSettled(Array.from({ length: 8 }, () => chat.create(long)));
    assert.ok(all.some((r) => r.status === 'fulfilled'));
    const refused = all.filter((r) => r.status === 'rejected').map((r) => r.reason);
    assert.ok(refused.length > 0);
    for (const e of refused) assert.ok(e instanceof OpenAI.RateLimitError, `${e}`);
    const patient = new OpenAI({ baseURL: small.url + '/v1', apiKey: 'none', maxRetries: 6 }).chat.completions;
    await Promise.all([1, 2, 3].map(() => patient.create({ ...plain, reasoning_effort: 'none' })));
  } finally {
    await small.stop();
  }
});

test('leaving an answer frees the server', async () => {
  const { usage } = await create(endless);
  assert.ok(usage.completion_tokens > 1000);
  for (const n of [1, 2]) {
    await server.cut(n * usage.completion_tokens, async () => {
      for await (const chunk of await create({ ...endless, n, stream: true })) {
        if (chunk.choices[0]?.delta.content) break;
      }
    });
  }
  await server.cut(usage.completion_tokens, async () => {
    const abort = new AbortController();
    const waiting = client.chat.completions.create(endless, { signal: abort.signal });
    await server.running(1);
    abort.abort();
    await assert.rejects(waiting, OpenAI.APIUserAbortError);
  });
});

test('a raw completion, streaming and not', async () => {
  const params = { model: 'demo', prompt: 'What is 17 + 25?', max_tokens: 12, temperature: warm(0.8), seed: 3, logprobs: 2, echo: false };
  const c = await client.completions.create(params);
  assert.equal(c.object, 'text_completion');
  assert.equal(c.choices[0].logprobs.tokens.join(''), c.choices[0].text);
  assert.ok(c.usage.completion_tokens <= 12);
  let text = '';
  for await (const chunk of await client.completions.create({ ...params, stream: true })) text += chunk.choices[0]?.text ?? '';
  assert.equal(text, c.choices[0].text);
  const both = await client.completions.create({ ...params, prompt: ['1 + 1', '2 + 2'], n: 2 });
  assert.deepEqual(both.choices.map((choice) => choice.index), [0, 1, 2, 3]);
});

test('embeddings, as numbers and in base64', async () => {
  const input = ['one apple', 'two apples'];
  if (atAddress) return assert.rejects(client.embeddings.create({ model: 'demo', input }), (e) => e instanceof OpenAI.BadRequestError && /does not give embeddings/.test(e.message));
  const float = await client.embeddings.create({ model: 'demo', input, encoding_format: 'float' });
  const packed = await client.embeddings.create({ model: 'demo', input }); // the client asks for base64 and decodes it
  assert.equal(float.data.length, 2);
  for (const [i, { embedding }] of float.data.entries()) {
    const length = Math.hypot(...embedding);
    assert.ok(Math.abs(length - 1) < 1e-3, `${length}`);
    assert.equal(packed.data[i].embedding.length, embedding.length);
    for (const [k, x] of embedding.entries()) assert.ok(Math.abs(x - packed.data[i].embedding[k]) < 1e-6);
  }
  assert.ok(float.usage.prompt_tokens > 0);
  await assert.rejects(client.embeddings.create({ model: 'demo', input: [] }), (e) => e instanceof OpenAI.BadRequestError && e.param === 'input');
});

test('models', async () => {
  const names = [];
  for await (const m of client.models.list()) names.push(m.id);
  assert.deepEqual(names, ['demo']);
  const m = await client.models.retrieve('demo');
  assert.equal(m.object, 'model');
  await assert.rejects(client.models.retrieve('none'), OpenAI.NotFoundError);
});
