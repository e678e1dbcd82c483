// An answer of the model: what is known of it, and how it looks. The same view takes the events of a run and shows an
// answer from the browser's storage.
import { make, reveal, setRendered } from "./dom.js";
import { post } from "./api.js";
import { timeline } from "./timeline.js";

const cache = new Map(); // HTML by kind and text

// render replaces plain texts by their HTML. Texts that cannot be rendered now stay plain.
export async function render(places) {
  const todo = [];
  for (const place of places) {
    const html = cache.get(`${place.json}${place.text}`);
    if (html === undefined) todo.push(place);
    else show(place, html);
  }
  for (let from = 0; from < todo.length;) {
    let size = 0;
    let to = from;
    while (to < todo.length && to - from < 256 && (to === from || size + todo[to].text.length < 256 << 10)) {
      size += todo[to++].text.length;
    }
    const part = todo.slice(from, to);
    from = to;
    try {
      const { html } = await post("/web/render", { texts: part.map(({ text, json }) => ({ text, json })) });
      part.forEach((place, i) => {
        if (cache.size > 2000) cache.clear();
        cache.set(`${place.json}${place.text}`, html[i]);
        show(place, html[i]);
      });
    } catch {
      /* the plain text stays */
    }
  }
}

function show(place, html) {
  const block = make("div");
  setRendered(block, html);
  place.node.replaceChildren(block);
  place.node.classList.remove("plain");
}

export const textOf = (message, kind) =>
  message.parts
    .filter((p) => p.kind === kind && !p.specialist)
    .map((p) => p.text)
    .join("");

// ranges writes characters shortly: 0–9 for ten digits.
export function ranges(ascii) {
  const names = { " ": "space", "\n": "line end" };
  const out = [];
  for (let i = 0; i < ascii.length;) {
    let j = i;
    while (j + 1 < ascii.length && ascii.charCodeAt(j + 1) === ascii.charCodeAt(j) + 1) j++;
    const name = (c) => names[c] ?? c;
    if (j - i > 2 && ascii[i] > " ") out.push(`${ascii[i]}–${ascii[j]}`);
    else for (let k = i; k <= j; k++) out.push(name(ascii[k]));
    if (j - i > 2 && ascii[i] <= " ") {
      out.splice(-(j - i + 1));
      out.push(`space, !–${ascii[j]}`);
    }
    i = j + 1;
  }
  return out.join("  ");
}

const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;

export function figuresOf(done) {
  const { usage, timing } = done;
  const list = [`${usage.completion} tokens`];
  if (usage.reasoning) list[0] += ` (${usage.reasoning} reasoning)`;
  if (usage.summary) list.push(`summary ${usage.summary}`);
  if (timing.decode > 0 && usage.completion > 1) {
    list.push(`${(((usage.completion - 1) / timing.decode) * 1000).toFixed(1)} tokens/s`);
  }
  list.push(
    `first token ${seconds(timing.first_token)}`,
    `prompt ${usage.prompt}${usage.cached ? `, ${usage.cached} cached` : ""}`,
  );
  return list.join(" · ");
}

const endings = {
  length: "It ended at a limit.",
  reasoning_budget: "The reasoning ended at its budget.",
  answer_reserve: "The reasoning ended to leave room for the answer.",
  context_full: "The context is full.",
  stop_string: "It ended at a stop text.",
};

// View shows one answer. capped says that the server hides the reasoning.
export class View {
  constructor(message, { capped }) {
    this.message = message;
    this.capped = capped;
    this.live = message.state === "running";
    this.began = performance.now(); // of a live run
    this.places = [];
    this.parts = new Map();
    this.specialists = new Map();
    this.label = make("p", { className: "who" }, message.model || "Model");
    this.body = make("div", { className: "body" });
    this.notes = make("div", {});
    this.actions = make("div", { className: "actions" });
    this.node = make(
      "article",
      { className: "message assistant", "aria-label": "Answer" },
      this.label,
      this.body,
      this.notes,
      this.actions,
    );
    for (const [i, part] of message.parts.entries()) this.stored(part, i);
    for (const text of message.warnings) this.warn(text);
    this.times();
    this.finish();
  }

  // stored shows a part of an answer that is over.
  stored(part, id) {
    if (part.specialist) this.specialist(part.specialist);
    const view = this.open(part, id);
    if (part.text && view.text) {
      view.text.classList.add("plain");
      view.text.textContent = reveal(part.text);
      this.places.push({ node: view.text, text: part.text, json: part.kind === "call" || part.json === true });
    }
    this.close(id);
  }

  where(specialist) {
    return (specialist && this.specialists.get(specialist)) || this.body;
  }

  specialist(id, by) {
    if (!this.specialists.has(id)) {
      const node = make(
        "section",
        { className: "specialist", "aria-label": "Specialist" },
        make("p", { className: "who" }, by === "user" ? "Specialist, as you asked" : "Specialist"),
      );
      this.specialists.set(id, node);
      this.body.append(node);
    }
    return this.specialists.get(id);
  }

  // open begins a part and returns its view.
  open(part, id) {
    const view = { part, text: null, node: null, blocks: [] };
    this.parts.set(id, view);
    const text = make("div", { className: "text", dir: "auto" });
    switch (part.kind) {
      case "reasoning":
        view.node = make("div", { className: "thoughts hidden-part busy" }, make("div", { className: "small" }));
        view.hidden = view.node.firstChild;
        this.hides(view, true);
        view.text = text;
        if (part.text) this.reveal(view);
        break;
      case "summary":
        view.text = text;
        view.node = make(
          "details",
          { className: "thoughts busy", open: true },
          make("summary", {}, "Summary of the reasoning"),
          make("div", { className: "inner" }, text),
        );
        break;
      case "call":
        view.text = text;
        view.node = make(
          "section",
          { className: "call", "aria-label": `Call of ${part.call?.name}` },
          make("h2", {}, part.call?.name ?? "call"),
          text,
        );
        break;
      default:
        view.text = text;
        view.node = text;
    }
    this.place(view);
    return view;
  }

  // place puts a part behind the others. A summary takes the place of the reasoning that it sums up, or goes before the
  // answer, because it may come after it.
  place(view) {
    const { part, node } = view;
    const others = [...this.parts.values()].filter((v) => v !== view && v.part.specialist === part.specialist);
    const hidden = others.findLast((v) => v.hidden);
    const answer = others.find((v) => v.part.kind === "answer");
    if (part.kind === "summary" && hidden) hidden.node.replaceWith(node);
    else if (part.kind === "summary" && answer) answer.node.before(node);
    else this.where(part.specialist).append(node);
  }

  hides(view, busy) {
    const why = this.capped ? "hidden by the server" : "hidden";
    view.hidden.textContent = busy ? `Reasoning … (${why})` : `Reasoning (${why})`;
  }

  // reveal turns a hidden part into one that can be unfolded, because it has text.
  reveal(view) {
    const node = make(
      "details",
      { className: view.node.className.replace("hidden-part", "").trim() },
      make("summary", {}, "Reasoning"),
      make("div", { className: "inner", tabIndex: 0 }, view.text),
    );
    view.node.replaceWith(node);
    view.node = node;
    view.hidden = null;
  }

  close(id) {
    const view = this.parts.get(id);
    if (!view) return;
    view.node.classList.remove("busy");
    if (this.live) view.part.to ??= this.now();
    if (view.hidden) this.hides(view, false);
  }

  now() {
    return Math.round(performance.now() - this.began);
  }

  // take shows an event of the run and keeps what it says in the message.
  take(event) {
    const { message } = this;
    switch (event.type) {
      case "start":
        message.model = event.model;
        message.info = event.reasoning_info;
        this.label.textContent = event.reasoning_info.effort
          ? `${event.model} · effort ${event.reasoning_info.effort}`
          : event.model;
        break;
      case "open": {
        const { kind, specialist = "", call } = event;
        const part = { kind, text: "", specialist, call, from: this.now() };
        if (event.kind === "answer" && message.json) part.json = true;
        message.parts.push(part);
        this.open(part, event.part);
        break;
      }
      case "text": {
        const view = this.parts.get(event.part);
        view.part.text += event.text ?? "";
        if (view.hidden) this.reveal(view);
        if (event.html !== undefined) {
          view.blocks[event.block] ??= view.text.appendChild(make("div"));
          setRendered(view.blocks[event.block], event.html);
        }
        break;
      }
      case "close":
        this.close(event.part);
        break;
      case "next":
        this.next(event);
        break;
      case "specialist":
        this.specialist(event.delegation.id, event.delegation.by);
        this.step(
          event.delegation.by === "user" ? "A specialist begins, as you asked" : "The model calls a specialist",
        );
        break;
      case "specialist_end":
        this.ended(event.delegation);
        break;
      case "rationale": {
        const { decision, toolName, rationale } = event.decision;
        const what =
          decision === "tool-selection" ? `calls ${toolName}` : decision.replace("termination:", "ends with ");
        this.step(`${what}: ${rationale?.why ?? "no reason given"}`);
        break;
      }
      case "assumption": {
        const { assumption, because } = event.assumption;
        this.step(`assumes ${assumption}${because ? `, because ${because}` : ""}`);
        break;
      }
      case "strategy":
        this.warn(event.message);
        break;
      case "warning":
        message.warnings.push(event.message);
        this.warn(event.message);
        break;
      case "done":
        message.sealed = event.sealed ?? "";
        message.instructions = event.instructions;
        message.done = event;
        break;
      case "error":
        message.error = event.message;
        break;
    }
  }

  // next shows what the schema allows at this point of a held answer.
  next({ ascii, other, end }) {
    if (!this.mask) {
      this.mask = { line: make("p", { className: "next" }), list: make("ol", { className: "steps" }), count: 0 };
      this.mask.node = make(
        "details",
        { className: "thoughts" },
        make("summary", {}, "What the schema allowed"),
        make("div", { className: "inner", tabIndex: 0 }, this.mask.list),
      );
      this.notes.prepend(this.mask.line, this.mask.node);
    }
    const allowed =
      [ranges(ascii), other ? "characters beyond ASCII" : "", end ? "the end" : ""].filter(Boolean).join("  ") ||
      "nothing";
    this.mask.line.replaceChildren("May come next: ", make("code", {}, allowed));
    const tail = textOf(this.message, "answer").slice(-24);
    if (this.mask.last === tail + allowed || this.mask.count++ >= 300) return;
    this.mask.last = tail + allowed;
    this.mask.list.append(
      make("li", {}, make("code", {}, tail || "(the beginning)"), " then ", make("code", {}, allowed)),
    );
  }

  // ended says how a specialist's work ended.
  ended({ id, outcome, steps = 0 }) {
    const how =
      { returned: "returned", pending: "waits for the results of its calls" }[outcome] ?? `ended: ${outcome}`;
    const text = `It ${how} after ${steps} ${steps === 1 ? "step" : "steps"}.`;
    this.specialist(id).append(make("p", { className: "small" }, text));
    this.step(`The specialist ${how}`);
  }

  // step keeps what was decided, and shows it in the timeline.
  step(text) {
    (this.message.steps ??= []).push({ from: this.now(), text });
    this.times();
  }

  times() {
    const list = timeline(this.message);
    if (!list) return;
    if (!this.line) {
      this.line = make("div", { className: "inner", tabIndex: 0 });
      this.notes.append(
        make("details", { className: "thoughts", open: true }, make("summary", {}, "Timeline"), this.line),
      );
    }
    this.line.replaceChildren(list);
  }

  warn(text) {
    this.notes.append(make("p", { className: "warning" }, text));
  }

  // finish shows how the answer ended.
  finish() {
    const { message } = this;
    if (message.state === "running") return;
    for (const id of this.parts.keys()) this.close(id);
    this.times();
    this.mask?.line.remove();
    this.ending?.remove();
    this.ending = make("div");
    const detail = message.done && (endings[message.done.finish_detail] ?? endings[message.done.finish_reason]);
    if (detail) this.ending.append(make("p", { className: "small" }, detail));
    if (message.done?.reasoning_unavailable)
      this.ending.append(make("p", { className: "small" }, "The model gave no reasoning."));
    if (message.done?.trace_id) {
      this.ending.append(
        make(
          "p",
          { className: "small" },
          "Sealed trace ",
          make("code", {}, message.done.trace_id),
          ". Read it with runner trace explain.",
        ),
      );
    }
    if (message.state === "stopped") this.ending.append(make("p", { className: "small" }, "Stopped."));
    if (message.state === "cut")
      this.ending.append(make("p", { className: "small" }, "This answer was cut off when the page was left."));
    if (message.error) this.ending.append(make("p", { className: "failed", role: "alert" }, message.error));
    this.notes.append(this.ending);
  }
}
