// What the clients send and receive over the wire.
import assert from 'node:assert/strict';

// Wire is a fetch for clients that keeps the bodies of all responses. whole says that the client did not leave before
// the end.
export class Wire {
  bodies = [];

  fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (!answer.body) return answer;
    const body = { text: '', whole: false };
    this.bodies.push(body);
    const decoder = new TextDecoder();
    const kept = new TransformStream({
      transform: (bytes, out) => {
        body.text += decoder.decode(bytes, { stream: true });
        out.enqueue(bytes);
      },
      flush: () => {
        body.whole = true;
      },
    });
    return new Response(answer.body.pipeThrough(kept), answer);
  };

  // take returns what came since the last call: every JSON value of every body. Each frame of a stream is a value.
  take() {
    const taken = this.bodies.flatMap(values);
    this.bodies = this.bodies.filter((body) => !body.whole); // these may go on
    return taken;
  }
}

// values takes the values out of a body. Of a body that is not whole, only whole lines are taken.
function values(body) {
  const { text, whole } = body;
  if (whole && text.startsWith('{') && !text.includes('\n{')) return [JSON.parse(text)];
  const end = whole ? text.length : text.lastIndexOf('\n') + 1;
  body.text = text.slice(end);
  return text
    .slice(0, end)
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
