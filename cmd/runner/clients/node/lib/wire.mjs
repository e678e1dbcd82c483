// What the clients send and receive over the wire.
import assert from 'node:assert/strict';

// Wire is a fetch for clients that keeps the bodies of all responses.
export class Wire {
  bodies = [];

  fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (!answer.body) return answer;
    const index = this.bodies.push('') - 1;
    const decoder = new TextDecoder();
    const kept = new TransformStream({
      transform: (bytes, out) => {
        this.bodies[index] += decoder.decode(bytes, { stream: true });
        out.enqueue(bytes);
      },
    });
    return new Response(answer.body.pipeThrough(kept), answer);
  };

  // take returns what came since the last call: every JSON value of every body. Each frame of a stream is a value.
  take() {
    return this.bodies.splice(0).flatMap(values);
  }
}

function values(body) {
  if (body.startsWith('{') && !body.includes('\n{')) return [JSON.parse(body)];
  return body
    .split('\n')
    .map((line) => line.replace(/^data: /, ''))
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
}

// texts joins the strings of values that have the same place, so that a text that came in pieces is whole again.
export function texts(values) {
  const found = new Map();
  const walk = (value, path) => {
    if (typeof value === 'string') found.set(path, (found.get(path) ?? '') + value);
    else if (value && typeof value === 'object') {
      for (const [key, inner] of Object.entries(value)) walk(inner, Array.isArray(value) ? `${path}[]` : `${path}.${key}`);
    }
  };
  for (const value of values) walk(value, '');
  return found;
}

// assertHidden fails if any field of an answer contains a line of the reasoning.
export function assertHidden(values, reasoning) {
  const lines = reasoning.split('\n').filter((line) => line.length > 8);
  assert.ok(lines.length > 1, `the reasoning is too short to be looked for: ${reasoning}`);
  assert.ok(values.length > 0, 'nothing came');
  for (const [path, text] of texts(values)) {
    for (const line of lines) assert.ok(!text.includes(line), `${path} holds reasoning: ${text}`);
  }
}

// longestShared returns the length of the longest run of words that two texts share.
export function longestShared(a, b) {
  const [x, y] = [a, b].map((text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  let most = 0;
  for (let i = 0; i < x.length; i++) {
    for (let j = 0; j < y.length; j++) {
      let n = 0;
      while (x[i + n] !== undefined && x[i + n] === y[j + n]) n++;
      most = Math.max(most, n);
    }
  }
  return most;
}

// likely returns the part of log probabilities that is equal in two runs. The rest is rounding: the grouping of sums
// depends on what shares the step and the cache with a sequence.
export const likely = (list) =>
  (list ?? []).map(({ token, logprob, top_logprobs }) => ({ token, logprob: Math.round(logprob * 10) / 10, alternatives: top_logprobs?.length ?? 0 }));
