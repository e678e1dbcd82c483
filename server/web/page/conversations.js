// The conversations: which there are, which is shown, and how they are kept.
import { $, make, save as saveFile } from "./dom.js";
import * as store from "./store.js";
import * as settings from "./settings.js";
import { menu, notice, runs, state } from "./state.js";
import { draw } from "./thread.js";

const defaults = () => ({
  visibility: state.session.max_reasoning,
  carry: true,
  model: state.session.models?.[0]?.name ?? "",
  "compare-model": state.session.models?.[0]?.name ?? "",
});

// fresh returns a conversation without messages. Sealed values belong to its scope, which copies of it share.
function fresh() {
  const id = store.newID();
  return { id, scope: id, rev: 0, title: "New conversation", messages: [], settings: {} };
}

// list shows the names of all conversations.
export async function list() {
  const all = await store.list();
  $("conversations").replaceChildren(
    ...all.map((c) =>
      make(
        "li",
        { className: c.id === state.current?.id ? "current" : "" },
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
            "aria-current": c.id === state.current?.id ? "true" : "false",
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
  if (c.id === state.current.id) show(fresh());
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
export function keep(c) {
  const next = (keeping.get(c) ?? Promise.resolve())
    .then(async () => {
      if (!c.messages.length) return;
      const { id } = c;
      await store.save(c);
      if (c.id !== id && c === state.current) {
        location.hash = c.id;
        notice("Another tab has changed this conversation. What you do here goes on in a copy.");
      }
    })
    .then(list, () => notice("The browser could not store this conversation. Export it to keep it."));
  keeping.set(c, next);
  return next;
}

// show makes a conversation the current one.
export function show(c) {
  state.current = c;
  $("title").textContent = c.title;
  document.title = c.messages.length ? `${c.title} – runner` : "runner";
  if (location.hash.slice(1) !== c.id) history.replaceState(null, "", `#${c.id}`);
  settings.show(c.settings, defaults());
  draw();
  list();
}

// open shows a stored conversation, or a new one if it is not there.
export async function open(id) {
  const stored = await store.load(id).catch(() => undefined);
  const waiting = stored?.messages.some((m) => m.state === "running");
  show(stored ? settle(stored) : fresh());
  if (!waiting) return;
  setTimeout(async () => {
    // was it this tab before a reload, or another one?
    const again = await store.load(id);
    if (again && state.current.id === id && !runs.has(id)) show(settle(again));
    $("notice").hidden = true;
  }, 4500);
}

// settle marks answers that nobody continues. The tab that answers says so every second.
function settle(c) {
  for (const m of c.messages.flatMap((n) => [n, n.other]).filter(Boolean)) {
    if (m.state === "running" && (Date.now() - m.beat > 4000 || m.tab === state.tab)) m.state = "cut";
  }
  return c;
}

export function listen() {
  $("new").addEventListener("click", () => {
    show({ ...fresh(), settings: settings.read() });
    menu(false);
    $("message").focus();
  });
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
      notice("This file has no conversations of this page.");
    }
    e.target.value = "";
  });
  addEventListener("pagehide", () => {
    for (const { conversation } of runs.values()) keep(conversation);
  });
  store.onChange(async ({ changed, removed }) => {
    list();
    if (state.current && changed === state.current.id && !runs.has(changed)) {
      const c = await store.load(changed);
      if (c && c.rev !== state.current.rev) {
        $("notice").hidden = true;
        show(settle(c));
      }
    }
    if (state.current && removed === state.current.id && !runs.has(removed)) show(fresh());
  });
}
