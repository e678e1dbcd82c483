// The page: conversations, the composer, and the runs under way.
import { $, announce, copy, make, save as saveFile } from "./dom.js";
import * as api from "./api.js";
import * as store from "./store.js";
import * as settings from "./settings.js";
import * as operator from "./operator.js";
import { View, figuresOf, render, textOf } from "./answer.js";

const tab = store.newID();
let session = { max_reasoning: "full", reasoning: "none", models: [] };
let current; // the conversation that is shown
let files = []; // attached to the next message
const runs = new Map(); // runs of this tab, by conversation

const defaults = () => ({
  visibility: session.max_reasoning,
  carry: true,
  model: session.models?.[0]?.name ?? "",
  "compare-model": session.models?.[0]?.name ?? "",
});
const fresh = () => ({ id: store.newID(), rev: 0, title: "New conversation", messages: [], settings: {} });

// ---- The session ----

async function connect() {
  try {
    session = await api.get("/web/session");
    $("notice").hidden = true;
  } catch (error) {
    if (error.status === 401)
      return askKey(api.hasKey() ? "The server does not know this key." : "This server asks for an API key.");
    return notice(error.message, connect);
  }
  const options = (list) => list.map((m) => make("option", { value: m.name }, m.name));
  $("model").replaceChildren(...options(session.models ?? []));
  $("compare-model").replaceChildren(...options(session.models ?? []));
  $("model").hidden = !session.models?.length;
  $("model-name").hidden = !$("model").hidden;
  const most = ["none", "summary", "full"].indexOf(session.max_reasoning);
  [...$("visibility").options].forEach((option, i) => {
    option.disabled = i > most;
    option.textContent = ["hidden", "summary", "full"][i] + (i > most ? " (hidden by the server)" : "");
  });
  $("key").hidden = !session.keys;
  $("operator").hidden = !session.admin;
  $("trace-row").hidden = $("trace-help").hidden = !session.traces;
  if (current) show(current);
  if (!(await store.durable()))
    notice("This browser stores nothing for this page. Conversations are lost when it is closed.");
}

function notice(text, again) {
  $("notice").replaceChildren(text, again ? make("button", { className: "quiet", onclick: again }, "Try again") : "");
  $("notice").hidden = false;
}

function askKey(why) {
  $("key-why").textContent = why;
  $("key-input").value = "";
  if (!$("key-dialog").open) $("key-dialog").showModal();
}

// ---- Conversations ----

async function list() {
  const all = await store.list();
  $("conversations").replaceChildren(
    ...all.map((c) =>
      make(
        "li",
        { className: c.id === current?.id ? "current" : "" },
        make(
          "button",
          {
            className: "open",
            type: "button",
            title: c.title,
            onclick: () => {
              go(c.id);
              menu(false);
            },
            "aria-current": c.id === current?.id ? "true" : "false",
          },
          c.title,
        ),
        make(
          "button",
          { className: "remove", type: "button", "aria-label": `Delete ${c.title}`, onclick: () => forget(c) },
          "×",
        ),
      ),
    ),
  );
}

async function forget(c) {
  if (!confirm(`Delete "${c.title}"? This cannot be undone.`)) return;
  runs.get(c.id)?.abort();
  runs.delete(c.id);
  await store.remove(c.id);
  if (c.id === current.id) show(fresh());
  list();
}

async function go(id) {
  const run = runs.get(id);
  const c = run ? run.conversation : await store.load(id);
  show(c ?? fresh());
  $("message").focus();
}

// keep stores a conversation. Conversations without messages are not stored.
const keeping = new Map();
function keep(c) {
  const next = (keeping.get(c) ?? Promise.resolve())
    .then(async () => {
      if (!c.messages.length) return;
      const { id } = c;
      await store.save(c);
      if (c.id !== id && c === current) {
        location.hash = c.id;
        notice("Another tab has changed this conversation. What you do here goes on in a copy.");
      }
    })
    .then(list, () => notice("The browser could not store this conversation. Export it to keep it."));
  keeping.set(c, next);
  return next;
}

function show(c) {
  current = c;
  $("title").textContent = c.title;
  document.title = c.messages.length ? `${c.title} – runner` : "runner";
  if (location.hash.slice(1) !== c.id) history.replaceState(null, "", `#${c.id}`);
  settings.show(c.settings, defaults());
  draw();
  list();
}

// draw shows the messages of the current conversation.
function draw() {
  const c = current;
  const running = runs.get(c.id);
  const places = [];
  const nodes = c.messages
    .map((m, i) => {
      if (m.role === "user") return userNode(c, m, i);
      if (m.role !== "assistant") return null; // results of tools are shown at their calls
      const views = [m, m.other].filter(Boolean).map((message) => {
        const live = running?.views.get(message);
        if (live) return live;
        const view = new View(message, { capped: session.max_reasoning === "none" });
        places.push(...view.places);
        buttons(c, view, i);
        return view;
      });
      if (views.length === 1) return views[0].node;
      return make("div", { className: "pair" }, ...views.map((v) => v.node));
    })
    .filter(Boolean);
  $("log").replaceChildren(...(nodes.length ? nodes : [empty()]));
  render(places).then(() => bottom(true));
  bottom(true);
  composer();
}

function empty() {
  const idea = (text) =>
    make(
      "button",
      {
        onclick: () => {
          $("message").value = text;
          grow();
          $("message").focus();
        },
      },
      text,
    );
  return make(
    "div",
    { className: "empty" },
    make("h2", {}, "What shall the model think about?"),
    make("p", {}, "Its reasoning is folded above each answer. You choose how much of it you see."),
    make(
      "div",
      { className: "ideas" },
      idea("What is 17 + 25?"),
      idea("Tom has 3 apples and buys 4 more. How many has he?"),
      idea("Which is later, 14:35 or 2 pm?"),
    ),
  );
}

function userNode(c, m, i) {
  const bubble = make("div", { className: "bubble", dir: "auto" }, m.content);
  const node = make(
    "article",
    { className: "message user", "aria-label": "Your message" },
    bubble,
    ...m.files.map((f) =>
      make("details", { className: "attached" }, make("summary", {}, f.name), make("pre", { tabIndex: 0 }, f.text)),
    ),
    make(
      "div",
      { className: "actions" },
      make("button", { className: "quiet", onclick: () => edit(c, m, i, node) }, "Edit"),
      make("button", { className: "quiet", onclick: () => copy(m.content) }, "Copy"),
    ),
  );
  return node;
}

function edit(c, m, i, node) {
  if (runs.has(c.id)) return;
  const area = make("textarea", {
    value: m.content,
    rows: Math.min(12, m.content.split("\n").length + 1),
    "aria-label": "Edit the message",
  });
  node.replaceChildren(
    area,
    make(
      "div",
      { className: "actions" },
      make(
        "button",
        {
          className: "main-action",
          onclick: () => {
            if (!area.value.trim() && !m.files.length) return;
            c.messages.splice(i, Infinity, { ...m, content: area.value });
            run(c);
          },
        },
        "Send again",
      ),
      make(
        "button",
        {
          className: "quiet",
          onclick: () => {
            draw();
          },
        },
        "Cancel",
      ),
    ),
  );
  area.focus();
}

// buttons adds what can be done with an answer. The fields for the results of calls belong to the last answer.
function buttons(c, view, i) {
  const m = view.message;
  const of = c.messages[i];
  const last = c.messages.slice(i + 1).every((n) => n.role === "tool");
  const add = (name, act) => view.actions.append(make("button", { className: "quiet", onclick: act }, name));
  view.actions.replaceChildren();
  add("Copy", () => copy(textOf(m, "answer") || m.parts.map((p) => p.text).join("\n\n")));
  if (last)
    add(m.error ? "Try again" : "Regenerate", () => {
      c.messages.splice(i);
      run(c);
    });
  if (of.other && m === of.other)
    add("Go on with this one", () => {
      delete of.other;
      c.messages[i] = m;
      c.messages.splice(i + 1);
      keep(c);
      draw();
    });
  if (m.done) view.actions.append(make("span", { className: "figures" }, figuresOf(m.done)));
  if (m === of) results(c, view, i, last);
}

function results(c, view, i, last) {
  const calls = [...view.parts.values()].filter((p) => p.part.kind === "call" && p.part.call);
  const given = (id) => c.messages.slice(i + 1).find((n) => n.role === "tool" && n.call_id === id);
  const areas = [];
  for (const { part, node } of calls) {
    const result = given(part.call.id);
    if (result)
      node.append(
        make("p", { className: "small" }, "Result"),
        make("div", { className: "text plain" }, result.content),
      );
    else if (last && view.message.state === "done") {
      const area = make("textarea", {
        rows: 2,
        "aria-label": `Result of ${part.call.name}`,
        placeholder: "Type the result",
      });
      areas.push([part.call.id, area]);
      node.append(area);
    }
  }
  if (areas.length) {
    view.body.append(
      make(
        "button",
        {
          className: "main-action",
          onclick: () => {
            c.messages.push(...areas.map(([id, area]) => ({ role: "tool", call_id: id, content: area.value })));
            run(c);
          },
        },
        areas.length > 1 ? "Send the results" : "Send the result",
      ),
    );
  }
}

// ---- Runs ----

function userText(m) {
  const fence = (text) => "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((r) => r[0].length + 1)));
  return [m.content, ...m.files.map((f) => `File ${f.name}:\n${fence(f.text)}\n${f.text}\n${fence(f.text)}`)]
    .filter(Boolean)
    .join("\n\n");
}

// wire returns the messages as the server takes them.
function wire(c) {
  const out = c.settings.system?.trim() ? [{ role: "system", content: c.settings.system }] : [];
  for (const m of c.messages) {
    if (m.role === "user") out.push({ role: "user", content: userText(m) });
    else if (m.role === "tool") out.push({ role: "tool", call_id: m.call_id, content: m.content });
    else {
      const calls = m.parts
        .filter((p) => p.kind === "call" && p.call)
        .map((p) => ({ id: p.call.id, name: p.call.name, arguments: p.text }));
      const content = textOf(m, calls.length ? "preamble" : "answer");
      if (!content && !calls.length) continue;
      out.push({ role: "assistant", content, calls, sealed: m.sealed || undefined, instructions: m.instructions });
    }
  }
  return out;
}

const blank = (model) => ({
  role: "assistant",
  model,
  parts: [],
  warnings: [],
  state: "running",
  tab,
  beat: Date.now(),
  sealed: "",
  error: "",
});

// run has the model answer the last message of a conversation.
async function run(c) {
  if (runs.has(c.id) || (c === current && !settings.check())) return;
  const stop = new AbortController();
  const s = c.settings;
  const body = { ...settings.fields(s), conversation: c.id, messages: wire(c) };
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
  const views = new Map(
    [message, message.other]
      .filter(Boolean)
      .map((m) => [m, new View(m, { capped: session.max_reasoning === "none" })]),
  );
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
  if (c === current) {
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

// ---- The composer ----

function composer() {
  const busy = runs.has(current.id);
  $("send").hidden = busy;
  $("stop").hidden = !busy;
  const elsewhere = !busy && current.messages.some((m) => m.state === "running");
  $("send").disabled = elsewhere;
  if (elsewhere) notice("Another tab is answering this conversation.");
}

function send() {
  const text = $("message").value;
  if (runs.has(current.id) || $("send").disabled || (!text.trim() && !files.length)) return;
  if (!settings.check()) {
    drawer(true);
    return;
  }
  current.settings = settings.read();
  if (!current.messages.length) {
    current.title = (text.trim() || files[0].name).split("\n")[0].slice(0, 60);
    $("title").textContent = current.title;
    document.title = `${current.title} – runner`;
  }
  current.messages.push({ role: "user", content: text, files });
  $("message").value = "";
  files = [];
  showFiles();
  grow();
  run(current);
}

function grow() {
  const area = $("message");
  area.rows = Math.min(12, Math.max(1, area.value.split("\n").length));
}

const maxFile = 1 << 20;
async function attach(list_) {
  for (const file of list_) {
    if (file.size > maxFile) {
      notice(`${file.name} is longer than 1 MiB.`);
      continue;
    }
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      if (text.includes("\0")) throw new TypeError();
      files.push({ name: file.name, text });
    } catch {
      notice(`${file.name} is not a text.`);
    }
  }
  showFiles();
}

function showFiles() {
  $("files").replaceChildren(
    ...files.map((f, i) =>
      make(
        "li",
        {},
        f.name,
        make(
          "button",
          {
            type: "button",
            "aria-label": `Remove ${f.name}`,
            onclick: () => {
              files.splice(i, 1);
              showFiles();
            },
          },
          "×",
        ),
      ),
    ),
  );
}

// bottom follows the end of the messages, unless the reader has scrolled up. The second frame is for blocks whose
// height is only known once they are shown.
let follows = true;
let moved = 0; // when the reader last moved the messages
let asked = false;
function bottom(always) {
  if (always) follows = true;
  if (!follows || asked) return;
  asked = true;
  const down = () => {
    if (follows) $("log").scrollTop = $("log").scrollHeight;
  };
  requestAnimationFrame(() => {
    asked = false;
    down();
    requestAnimationFrame(down);
  });
}

function menu(shown) {
  $("side").classList.toggle("shown", shown);
  $("menu").setAttribute("aria-expanded", shown);
}

function drawer(shown) {
  $("drawer").hidden = !shown;
  $("settings").setAttribute("aria-expanded", shown);
  (shown ? $("system") : $("settings")).focus();
}

function listen() {
  $("composer").addEventListener("submit", (e) => {
    e.preventDefault();
    send();
  });
  $("message").addEventListener("input", grow);
  $("message").addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    }
  });
  $("stop").addEventListener("click", () => {
    runs.get(current.id)?.abort();
    $("message").focus();
  });
  $("new").addEventListener("click", () => {
    show({ ...fresh(), settings: settings.read() });
    menu(false);
    $("message").focus();
  });
  $("menu").addEventListener("click", () => menu(!$("side").classList.contains("shown")));
  $("settings").addEventListener("click", () => drawer($("drawer").hidden));
  $("drawer-close").addEventListener("click", () => drawer(false));
  document.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || document.querySelector("dialog[open]")) return;
    if (!$("drawer").hidden) drawer(false);
    else if ($("side").classList.contains("shown")) {
      menu(false);
      $("menu").focus();
    }
  });
  $("attach").addEventListener("click", () => $("attach-file").click());
  $("attach-file").addEventListener("change", async (e) => {
    await attach(e.target.files);
    e.target.value = "";
  });
  $("schema-example").addEventListener("click", () => {
    $("schema").value = settings.exampleSchema;
    $("schema").dispatchEvent(new Event("input"));
  });
  $("tools-example").addEventListener("click", () => {
    $("tools").value = settings.exampleTools;
    $("tools").dispatchEvent(new Event("input"));
  });
  settings.watch(() => {
    if (runs.has(current.id)) return; // a run keeps its settings
    current.settings = settings.read();
  });
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
    $("log").addEventListener(
      kind,
      () => {
        moved = performance.now();
      },
      { passive: true },
    );
  }
  $("log").addEventListener(
    "scroll",
    () => {
      const log = $("log");
      if (log.scrollHeight - log.scrollTop - log.clientHeight < 80) follows = true;
      else if (performance.now() - moved < 1000) follows = false;
    },
    { passive: true },
  );
  $("export").addEventListener("click", async () =>
    saveFile(
      "runner-conversations.json",
      JSON.stringify({ format: "runner-conversations", version: 1, conversations: await store.list() }),
    ),
  );
  $("import").addEventListener("click", () => $("import-file").click());
  $("import-file").addEventListener("change", async (e) => {
    try {
      const found = JSON.parse(await e.target.files[0].text());
      if (found.format !== "runner-conversations" || !Array.isArray(found.conversations)) throw new TypeError();
      for (const c of found.conversations) await store.save(store.read(c));
      list();
    } catch {
      notice("This file holds no conversations of this page.");
    }
    e.target.value = "";
  });
  $("key").addEventListener("click", () => askKey("Another key takes the place of the one in use."));
  $("key-cancel").addEventListener("click", () => $("key-dialog").close());
  $("key-form").addEventListener("submit", () => {
    api.setKey($("key-input").value.trim(), $("key-keep").checked);
    $("key-input").value = "";
    connect();
  });
  $("operator").addEventListener("click", operator.open);
  $("operator-close").addEventListener("click", () => $("operator-dialog").close());
  setInterval(() => {
    const run_ = current && runs.get(current.id);
    $("live").textContent = run_ ? `${((performance.now() - run_.began) / 1000).toFixed(1)} s` : "";
  }, 200);
  addEventListener("pagehide", () => {
    for (const { conversation } of runs.values()) keep(conversation);
  });
  store.onChange(async ({ changed, removed }) => {
    list();
    if (current && changed === current.id && !runs.has(changed)) {
      const c = await store.load(changed);
      if (c && c.rev !== current.rev) {
        $("notice").hidden = true;
        show(settle(c));
      }
    }
    if (current && removed === current.id && !runs.has(removed)) show(fresh());
  });
}

// settle marks answers that nobody continues. The tab that answers says so every second.
function settle(c) {
  for (const m of c.messages.flatMap((n) => [n, n.other]).filter(Boolean)) {
    if (m.state === "running" && (Date.now() - m.beat > 4000 || m.tab === tab)) m.state = "cut";
  }
  return c;
}

async function begin() {
  listen();
  const stored = await store.load(location.hash.slice(1)).catch(() => undefined);
  const waiting = stored?.messages.some((m) => m.state === "running");
  show(stored ? settle(stored) : fresh());
  if (waiting)
    setTimeout(async () => {
      // was it this tab before a reload, or another one?
      const again = await store.load(stored.id);
      if (again && current.id === again.id && !runs.has(again.id)) show(settle(again));
      $("notice").hidden = true;
    }, 4500);
  $("message").focus();
  await connect();
}

begin();
