// The messages of a conversation as the server takes them.
import { textOf } from "./answer.js";
import { state } from "./state.js";

function userText(m) {
  const fence = (text) => "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map((r) => r[0].length + 1)));
  return [m.content, ...m.files.map((f) => `File ${f.name}:\n${fence(f.text)}\n${f.text}\n${fence(f.text)}`)]
    .filter(Boolean)
    .join("\n\n");
}

// wire returns the messages as the server takes them.
export function wire(c) {
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

// blank is an answer that has just been asked for.
export const blank = (model) => ({
  role: "assistant",
  model,
  parts: [],
  warnings: [],
  state: "running",
  tab: state.tab,
  beat: Date.now(),
  sealed: "",
  error: "",
});
