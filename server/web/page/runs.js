// The runs under way: what is asked, and what becomes of the answers.
import { announce } from "./dom.js";
import * as api from "./api.js";
import * as store from "./store.js";
import * as settings from "./settings.js";
import { View } from "./answer.js";
import { askKey, capped, drawer, runs, state } from "./state.js";
import { blank, wire } from "./wire.js";
import { bottom } from "./scroll.js";
import { buttons as composer } from "./composer.js";
import { keep } from "./conversations.js";
import { buttons, draw } from "./thread.js";

// again has the model answer with other messages from a place on. Nothing is lost if the settings are wrong: they are
// shown instead.
export function again(c, from, ...messages) {
  if (runs.has(c.id)) return false;
  if (c === state.current) {
    if (!settings.check()) {
      drawer(true);
      return false;
    }
    c.settings = settings.read();
  }
  c.messages.splice(from, Infinity, ...messages);
  run(c);
  return true;
}

// run has the model answer the last message of a conversation.
async function run(c) {
  const stop = new AbortController();
  const s = c.settings;
  const body = { ...settings.fields(s), conversation: c.scope ?? c.id, messages: wire(c) };
  const bodies = [body];
  const message = blank(body.model);
  message.json = body.schema !== undefined;
  if (s.compare) {
    message.other = { ...blank(s["compare-model"] || body.model), json: message.json };
    bodies.push({
      ...body,
      model: s["compare-model"] || body.model,
      reasoning_effort: s["compare-effort"] || undefined,
    });
  }
  c.messages.push(message);
  const views = new Map([message, message.other].filter(Boolean).map((m) => [m, new View(m, { capped: capped() })]));
  const { id } = c;
  runs.set(id, { conversation: c, views, abort: () => stop.abort(), began: performance.now() });
  draw();
  announce("The model is answering.");
  await keep(c);
  if (c.id !== id) {
    runs.set(c.id, runs.get(id));
    runs.delete(id);
  }
  const beat = setInterval(() => {
    for (const m of views.keys()) m.beat = Date.now();
    keep(c);
  }, 1000);
  await Promise.all([...views.values()].map((view, i) => answer(view, bodies[i], stop.signal)));
  clearInterval(beat);
  for (const [key, r] of runs) if (r.conversation === c) runs.delete(key);
  const at = c.messages.indexOf(message);
  for (const view of views.values()) {
    view.finish();
    if (at >= 0) buttons(c, view, at);
  }
  if (at >= 0 && (await store.load(c.id))) await keep(c); // unless it was deleted meanwhile
  if (c === state.current) {
    composer();
    bottom();
    announce(
      message.error
        ? `The answer failed: ${message.error}`
        : message.state === "stopped"
          ? "Stopped."
          : "The answer is complete.",
    );
  }
}

async function answer(view, body, signal) {
  const m = view.message;
  try {
    await api.stream("/web/chat", body, signal, (event) => {
      view.take(event);
      bottom();
    });
    m.state = "done";
  } catch (error) {
    if (error.name === "AbortError") {
      m.state = "stopped";
      return;
    }
    m.state = "failed";
    m.error = error.message ?? "It failed.";
    if (error.status === 401) askKey("The server does not know this key.");
  }
}
