// Conversations in the browser's database. Tabs tell each other what changed. A conversation has a revision, so that
// two tabs cannot overwrite each other's work: the later one is saved as a copy.

const channel = "BroadcastChannel" in self ? new BroadcastChannel("runner") : null;
const memory = new Map(); // where the browser gives no database
let opened;

export function newID() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

function open() {
  opened ??= new Promise((resolve) => {
    if (!("indexedDB" in self)) return resolve(null);
    const request = indexedDB.open("runner", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  });
  return opened;
}

const settled = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function objects(mode) {
  const db = await open();
  return db && db.transaction("conversations", mode).objectStore("conversations");
}

export const durable = async () => (await open()) !== null;

export async function load(id) {
  const all = await objects("readonly");
  return all ? settled(all.get(id)) : structuredClone(memory.get(id));
}

// list returns all conversations, the last changed first.
export async function list() {
  const all = await objects("readonly");
  const found = all ? await settled(all.getAll()) : [...memory.values()];
  return found.sort((a, b) => b.updated - a.updated);
}

// save stores a conversation. If another tab has changed it meanwhile, it gets a new id and its title says so.
export async function save(conversation) {
  const all = await objects("readwrite");
  const stored = all ? await settled(all.get(conversation.id)) : memory.get(conversation.id);
  if (conversation.rev && (stored?.rev ?? 0) !== conversation.rev) {
    conversation.id = newID();
    conversation.title += " (copy)";
  }
  conversation.rev = (conversation.rev ?? 0) + 1;
  conversation.updated = Date.now();
  if (all) await settled(all.put(conversation));
  else memory.set(conversation.id, structuredClone(conversation));
  channel?.postMessage({ changed: conversation.id });
}

export async function remove(id) {
  const all = await objects("readwrite");
  if (all) await settled(all.delete(id));
  else memory.delete(id);
  channel?.postMessage({ removed: id });
}

export function onChange(take) {
  channel?.addEventListener("message", (event) => take(event.data));
}

const text = (v, most = 1 << 24) => (typeof v === "string" ? v.slice(0, most) : "");
const list_ = (v) => (Array.isArray(v) ? v : []);
const plain = (v) => (v && typeof v === "object" && !Array.isArray(v) ? v : {});
const number = (v) => (Number.isFinite(v) ? v : 0);
const numbers = (v, ...names) => Object.fromEntries(names.map((name) => [name, number(plain(v)[name])]));

function readPart(raw) {
  const p = plain(raw);
  const call = p.call && { id: text(plain(p.call).id, 1024), name: text(plain(p.call).name, 256) };
  const part = { kind: text(p.kind, 20), text: text(p.text), specialist: text(p.specialist, 256), call };
  if (p.json === true) part.json = true;
  if (Number.isFinite(p.from) && Number.isFinite(p.to)) Object.assign(part, numbers(p, "from", "to"));
  return part;
}

function readAnswer(m, second = false) {
  const state = text(m.state, 20);
  const answer = {
    role: "assistant",
    model: text(m.model, 1024),
    state: !state || state === "running" ? "done" : state,
    sealed: text(m.sealed),
    instructions: list_(m.instructions).map(plain),
    warnings: list_(m.warnings).map((w) => text(w, 4096)),
    error: text(m.error, 4096),
    parts: list_(m.parts).map(readPart),
    steps: list_(m.steps).map((s) => ({ ...numbers(s, "from"), text: text(plain(s).text, 4096) })),
  };
  if (m.done)
    answer.done = {
      finish_reason: text(plain(m.done).finish_reason, 40),
      finish_detail: text(plain(m.done).finish_detail, 40),
      reasoning_unavailable: plain(m.done).reasoning_unavailable === true,
      trace_id: text(plain(m.done).trace_id, 256),
      usage: numbers(plain(m.done).usage, "prompt", "cached", "completion", "reasoning", "summary"),
      timing: numbers(plain(m.done).timing, "queue", "first_token", "first_answer", "decode"),
    };
  if (m.other && !second) answer.other = readAnswer(plain(m.other), true);
  return answer;
}

function readMessage(raw) {
  const m = plain(raw);
  switch (m.role) {
    case "user": {
      const files = list_(m.files).map((f) => ({ name: text(plain(f).name, 256), text: text(plain(f).text) }));
      return { role: "user", content: text(m.content), files };
    }
    case "tool":
      return { role: "tool", call_id: text(m.call_id, 1024), content: text(m.content) };
    case "assistant":
      return readAnswer(m);
  }
  return null;
}

// read makes a conversation of something from a file. Only what the page knows is taken.
export function read(from) {
  const source = plain(from);
  return {
    id: newID(),
    scope: text(source.scope, 64) || text(source.id, 64) || newID(),
    rev: 0,
    updated: Date.now(),
    title: text(source.title, 200) || "Imported conversation",
    messages: list_(source.messages).map(readMessage).filter(Boolean),
    settings: Object.fromEntries(
      Object.entries(plain(source.settings)).filter(([, v]) => typeof v === "string" || typeof v === "boolean"),
    ),
  };
}
