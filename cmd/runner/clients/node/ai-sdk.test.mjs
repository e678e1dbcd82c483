// Tests with Vercel's AI SDK: with its provider for OpenAI-compatible servers, and with OpenAI's provider.
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { APICallError, NoObjectGeneratedError, Output, embedMany, generateObject, generateText, stepCountIs, streamObject, streamText, tool } from 'ai';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { z } from 'zod';
import { Server, keyOf } from './lib/server.mjs';
import { Wire, assertHidden } from './lib/wire.mjs';

const prompt = 'What is 17 + 25?';
const Operands = z.object({ a: z.number().int().min(0).max(999), b: z.number().int().min(0).max(999) });
const wire = new Wire();

let server, compatible, chat, responses;
before(async () => {
  // The SDK sends no temperature to models that it takes for reasoning models of OpenAI.
  server = await Server.start('--temperature', '0');
  compatible = createOpenAICompatible({ name: 'runner', baseURL: server.url + '/v1', includeUsage: true, supportsStructuredOutputs: true, fetch: wire.fetch });
  const openai = createOpenAI({ baseURL: server.url + '/v1', apiKey: 'none', fetch: wire.fetch });
  chat = openai.chat('demo');
  responses = openai.responses('demo');
});
after(() => server.stop());

// asking has the parameters of a question. runner has fields of this server that the SDK does not know.
const asking = (params = {}, runner = {}) => ({ model: compatible('demo'), prompt, temperature: 0, maxRetries: 0, providerOptions: { runner }, ...params });

// parts reads a stream to its end and returns its parts.
async function parts(result) {
  const found = { text: '', reasoning: '', objects: [], errors: [] };
  for await (const part of result.fullStream) {
    if (part.type === 'text-delta') found.text += part.text;
    if (part.type === 'reasoning-delta') found.reasoning += part.text;
    if (part.type === 'error') found.errors.push(part.error);
  }
  return found;
}

for (const [name, runner, params] of [
  ['plain', {}, {}],
  ['sampled', {}, { temperature: 0.9, seed: 3 }],
  ['with reasoning', { reasoning: 'full' }, { temperature: 0.9, seed: 3 }],
  ['cut off', { reasoning: 'full' }, { maxOutputTokens: 20 }],
  ['stopped', {}, { stopSequences: [' ='] }],
]) {
  test(`streamText gives the same as generateText, ${name}`, async () => {
    const whole = await generateText(asking(params, runner));
    const result = streamText(asking(params, runner));
    const streamed = await parts(result);
    assert.deepEqual(streamed.errors, []);
    assert.equal(streamed.text, whole.text);
    assert.equal(streamed.reasoning, whole.reasoningText ?? '');
    assert.equal(await result.finishReason, whole.finishReason);
    const counts = (u) => [u.inputTokens, u.outputTokens, u.totalTokens, u.outputTokenDetails.reasoningTokens];
    assert.deepEqual(counts(await result.totalUsage), counts(whole.totalUsage));
    assert.ok(whole.totalUsage.outputTokenDetails.reasoningTokens > 0);
    assert.ok(whole.text);
  });
}

test('generateText', async () => {
  const answer = await generateText(asking());
  assert.equal(answer.text, '17 + 25 = 42.');
  assert.equal(answer.finishReason, 'stop');
  assert.equal((await generateText(asking({ maxOutputTokens: 5 }))).finishReason, 'length');
  const talk = await generateText(asking({
    prompt: undefined, system: 'Be brief.',
    messages: [{ role: 'user', content: prompt }, ...answer.response.messages, { role: 'user', content: 'What is 532 - 187?' }],
  }));
  assert.equal(talk.text, '532 - 187 = 345.');
  assert.ok(talk.usage.inputTokenDetails.cacheReadTokens > 0);
});

test('reasoning, only if it was requested', async () => {
  const { reasoningText, text } = await generateText(asking({}, { reasoning: 'full' }));
  assert.match(reasoningText, /17 and 25/);
  assert.equal(text, '17 + 25 = 42.');
  wire.take();
  for (const runner of [{}, { reasoning: 'summary' }, { reasoningEffort: 'medium' }]) {
    assert.equal((await generateText(asking({}, runner))).reasoningText, undefined);
    assertHidden(wire.take(), reasoningText);
    assert.equal((await parts(streamText(asking({}, runner)))).reasoning, '');
    assertHidden(wire.take(), reasoningText);
  }
  const count = async (reasoningEffort) => (await generateText(asking({}, { reasoningEffort }))).usage.outputTokenDetails.reasoningTokens;
  assert.equal(await count('none'), 0);
  assert.ok((await count('low')) < (await count('high')));
});

test('objects, whole and in a stream', async () => {
  const { object, finishReason } = await generateObject(asking({ schema: Operands }));
  Operands.parse(object);
  assert.equal(finishReason, 'stop');
  const result = streamObject(asking({ schema: Operands }));
  let last;
  for await (const partial of result.partialObjectStream) last = partial;
  assert.deepEqual(last, object);
  assert.deepEqual(await result.object, object);
  const { output } = await generateText(asking({ output: Output.object({ schema: Operands }) }));
  assert.deepEqual(output, object);
  const choice = await generateObject(asking({ output: 'enum', enum: ['yes', 'no'], prompt: 'Is 17 + 25 = 42?' }));
  assert.ok(['yes', 'no'].includes(choice.object));
  await assert.rejects(generateObject(asking({ schema: Operands, maxOutputTokens: 2 })), NoObjectGeneratedError.isInstance);
});

test('a call, which the SDK runs, and the answer after it', async () => {
  const heard = [];
  const tools = { add: tool({ description: 'Adds two numbers', inputSchema: Operands, strict: true, execute: (args) => (heard.push(args), 42) }) };
  const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? { type: 'tool', toolName: 'add' } : 'none' });
  const params = asking({ tools, prepareStep, stopWhen: stepCountIs(2) }, { reasoningEffort: 'none' });
  const whole = await generateText(params);
  assert.equal(whole.steps.length, 2);
  assert.equal(whole.steps[0].finishReason, 'tool-calls');
  assert.equal(whole.steps[0].toolCalls[0].toolName, 'add');
  assert.deepEqual(whole.steps[0].toolCalls[0].input, heard[0]);
  Operands.parse(heard[0]);
  assert.equal(whole.steps[0].toolResults[0].output, 42);
  assert.ok(whole.text);
  const result = streamText(params);
  assert.deepEqual((await parts(result)).errors, []);
  const steps = await result.steps;
  assert.deepEqual(steps[0].toolCalls[0].input, heard[0]);
  assert.equal(await result.text, whole.text);
});

test('errors', async () => {
  const refused = (params, runner, status, message) => assert.rejects(generateText(asking(params, runner)), (e) => {
    assert.ok(APICallError.isInstance(e), `${e}`);
    assert.equal(e.statusCode, status);
    assert.match(e.message, message);
    return true;
  });
  await refused({ model: compatible('none') }, {}, 404, /none/);
  await refused({ temperature: -1 }, {}, 400, /temperature/);
  await refused({}, { reasoning: 'all' }, 400, /reasoning/);
  const failed = streamText(asking({ model: compatible('none'), onError: () => {} }));
  const { errors } = await parts(failed);
  assert.equal(errors[0].statusCode, 404);
});

test('keys and limits', async () => {
  const guarded = await Server.withKeys({ id: 'hidden' }, { id: 'rare', requests_per_minute: 1 });
  try {
    const as = (apiKey, params, runner) => generateText(asking({ model: createOpenAICompatible({ name: 'runner', baseURL: guarded.url + '/v1', apiKey })('demo'), ...params }, runner));
    await assert.rejects(as('wrong'), { statusCode: 401 });
    await assert.rejects(as(keyOf('hidden'), {}, { reasoning: 'full' }), { statusCode: 403 });
    await as(keyOf('rare'), { maxOutputTokens: 1 });
    await assert.rejects(as(keyOf('rare'), { maxOutputTokens: 1 }), (e) => e.statusCode === 429 && e.isRetryable);
  } finally {
    await guarded.stop();
  }
});

test('leaving a stream frees the server', async () => {
  const abort = new AbortController();
  const long = asking({ prompt: 'What is 517 + 386?', abortSignal: abort.signal }, { reasoning: 'full', reasoningEffort: 'high' });
  const { usage } = await generateText(long);
  await server.cut(usage.outputTokens, async () => {
    for await (const part of streamText(long).fullStream) if (part.type === 'reasoning-delta') abort.abort();
  });
});

test('embeddings', async () => {
  const { embeddings, usage } = await embedMany({ model: compatible.embeddingModel('demo'), values: ['one apple', 'two apples'] });
  assert.equal(embeddings.length, 2);
  for (const e of embeddings) assert.ok(Math.abs(Math.hypot(...e) - 1) < 1e-3);
  assert.ok(usage.tokens > 0);
});

test('OpenAI\'s provider, over chat completions', async () => {
  const whole = await generateText(asking({ model: chat }));
  assert.equal(whole.text, '17 + 25 = 42.');
  assert.ok(whole.usage.outputTokenDetails.reasoningTokens > 0);
  assert.equal((await parts(streamText(asking({ model: chat })))).text, whole.text);
  const { object } = await generateObject(asking({ model: chat, schema: Operands }));
  Operands.parse(object);
});

test('OpenAI\'s provider, over responses', async () => {
  // forceReasoning tells the SDK what it knows of OpenAI's models by their names.
  const openai = { forceReasoning: true, reasoningSummary: 'auto', reasoningEffort: 'medium' };
  const params = { model: responses, prompt, temperature: undefined, maxRetries: 0 };
  const plain = await generateText(params);
  assert.equal(plain.text, '17 + 25 = 42.');
  assert.equal(plain.reasoningText, undefined);
  assert.equal(plain.finishReason, 'stop');
  const whole = await generateText({ ...params, providerOptions: { openai } });
  assert.ok(whole.reasoningText, 'the summary');
  assert.ok(whole.usage.outputTokenDetails.reasoningTokens > 0);
  const streamed = await parts(streamText({ ...params, providerOptions: { openai } }));
  assert.deepEqual(streamed.errors, []);
  assert.equal(streamed.text, whole.text);
  assert.ok(streamed.reasoning);
  const { object } = await generateObject({ ...params, schema: Operands });
  Operands.parse(object);
});

test('OpenAI\'s provider carries a conversation over responses', async () => {
  const question = { role: 'user', content: prompt };
  const next = { role: 'user', content: 'What is 532 - 187?' };
  for (const store of [true, false]) {
    const openai = { forceReasoning: true, reasoningSummary: 'auto', store };
    const params = { model: responses, maxRetries: 0, providerOptions: { openai } };
    const first = await generateText({ ...params, messages: [question] });
    const second = await generateText({ ...params, messages: [question, ...first.response.messages, next] });
    assert.equal(second.text, '532 - 187 = 345.', `store ${store}`);
  }
  const first = await generateText({ model: responses, prompt });
  const previousResponseId = first.providerMetadata.openai.responseId;
  const second = await generateText({ model: responses, prompt: next.content, providerOptions: { openai: { previousResponseId } } });
  assert.equal(second.text, '532 - 187 = 345.');
});

test('OpenAI\'s provider runs calls over responses', async () => {
  const heard = [];
  const tools = { add: tool({ description: 'Adds two numbers', inputSchema: Operands, execute: (args) => (heard.push(args), 42) }) };
  const prepareStep = ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? { type: 'tool', toolName: 'add' } : 'none' });
  for (const store of [true, false]) {
    const whole = await generateText({
      model: responses, prompt, tools, prepareStep, stopWhen: stepCountIs(2), maxRetries: 0,
      providerOptions: { openai: { forceReasoning: true, reasoningEffort: 'none', store, strictJsonSchema: true } },
    });
    assert.equal(whole.steps[0].finishReason, 'tool-calls');
    assert.deepEqual(whole.steps[0].toolCalls[0].input, heard.at(-1));
    assert.ok(whole.text);
  }
  assert.equal(heard.length, 2);
});
