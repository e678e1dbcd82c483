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

// read makes a conversation of something from a file. Only what the page knows is taken.
export function read(from) {
  const source = plain(from);
  const messages = [];
  for (const raw of list_(source.messages)) {
    const m = plain(raw);
    if (m.role === "user") {
      messages.push({
        role: "user",
        content: text(m.content),
        files: list_(m.files).map((f) => ({ name: text(plain(f).name, 256), text: text(plain(f).text) })),
      });
    } else if (m.role === "tool") {
      messages.push({ role: "tool", call_id: text(m.call_id, 1024), content: text(m.content) });
    } else if (m.role === "assistant") {
      messages.push({
        role: "assistant",
        model: text(m.model, 1024),
        state: text(m.state, 20) || "done",
        sealed: text(m.sealed),
        warnings: list_(m.warnings).map((w) => text(w, 4096)),
        error: text(m.error, 4096),
        parts: list_(m.parts).map((p) => ({
          kind: text(plain(p).kind, 20),
          text: text(plain(p).text),
          specialist: text(plain(p).specialist, 256),
          call: plain(p).call && { id: text(plain(p.call).id, 1024), name: text(plain(p.call).name, 256) },
        })),
      });
    }
  }
  return {
    id: newID(),
    rev: 0,
    updated: Date.now(),
    title: text(source.title, 200) || "Imported conversation",
    messages,
    settings: Object.fromEntries(
      Object.entries(plain(source.settings)).filter(([, v]) => typeof v === "string" || typeof v === "boolean"),
    ),
  };
}
