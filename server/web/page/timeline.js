// When an answer did what: its parts as bars, and what the model decided in between. Times are the browser's, from the
// request on, in milliseconds.
import { make } from "./dom.js";

const names = {
  reasoning: "Reasoning",
  summary: "Summary",
  preamble: "Text before a call",
  answer: "Answer",
};

const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;

function nameOf(part) {
  const name = part.kind === "call" ? `Call of ${part.call?.name}` : (names[part.kind] ?? part.kind);
  return part.specialist ? `Specialist: ${name}` : name;
}

// timeline returns the rows of an answer in the order of time. It returns null if nothing was decided.
export function timeline(message) {
  const steps = message.steps ?? [];
  if (!steps.length) return null;
  const rows = [
    ...message.parts.filter((p) => p.from !== undefined).map((p) => ({ ...p, text: nameOf(p), bar: true })),
    ...steps.map((s) => ({ ...s, to: s.from })),
  ].sort((a, b) => a.from - b.from);
  const end = Math.max(1, ...rows.map((r) => r.to ?? r.from));
  return make(
    "ol",
    { className: "timeline", "aria-label": "Timeline" },
    ...rows.map(({ from, to = end, text, bar, kind = "" }) => {
      const track = make("span", { className: "track", "aria-hidden": "true" }, make("span", { className: "span" }));
      track.style.setProperty("--from", from / end);
      track.style.setProperty("--to", to / end);
      return make(
        "li",
        { className: bar ? "part" : "decision", "data-kind": kind },
        make("span", { className: "when" }, seconds(from)),
        make("span", { className: "what" }, text, bar ? make("span", {}, ` ${seconds(to - from)}`) : ""),
        track,
      );
    }),
  );
}
