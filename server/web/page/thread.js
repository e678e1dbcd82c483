// The messages of the conversation that is shown, and what can be done with each.
import { $, copy, make } from "./dom.js";
import { View, figuresOf, render, textOf } from "./answer.js";
import { capped, runs, state } from "./state.js";
import { bottom } from "./scroll.js";
import { buttons as composer, grow } from "./composer.js";
import { keep } from "./conversations.js";
import { again } from "./runs.js";

// draw shows the messages of the current conversation.
export function draw() {
  const c = state.current;
  const running = runs.get(c.id);
  const places = [];
  const nodes = c.messages
    .map((m, i) => {
      if (m.role === "user") return userNode(c, m, i);
      if (m.role !== "assistant") return null; // results of tools are shown at their calls
      const views = [m, m.other].filter(Boolean).map((message) => {
        const live = running?.views.get(message);
        if (live) return live;
        const view = new View(message, { capped: capped() });
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
    make("h2", {}, "What should the model think about?"),
    make("p", {}, "Its reasoning is folded above each answer. You choose how much of it you see."),
    make(
      "div",
      { className: "ideas" },
      idea("What is 17 + 25?"),
      idea("Tom has 3 apples and buys 4 more. How many apples does he have?"),
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
            if (area.value.trim() || m.files.length) again(c, i, { ...m, content: area.value });
          },
        },
        "Send again",
      ),
      make(
        "button",
        {
          className: "quiet",
          onclick: draw,
        },
        "Cancel",
      ),
    ),
  );
  area.focus();
}

// buttons adds what can be done with an answer. The fields for the results of calls belong to the last answer.
export function buttons(c, view, i) {
  const m = view.message;
  const of = c.messages[i];
  const last = c.messages.slice(i + 1).every((n) => n.role === "tool");
  const add = (name, act) => view.actions.append(make("button", { className: "quiet", onclick: act }, name));
  view.actions.replaceChildren();
  add("Copy", () => copy(textOf(m, "answer") || m.parts.map((p) => p.text).join("\n\n")));
  if (last) add(m.error ? "Try again" : "Regenerate", () => again(c, i));
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
          onclick: () =>
            again(
              c,
              c.messages.length,
              ...areas.map(([id, area]) => ({ role: "tool", call_id: id, content: area.value })),
            ),
        },
        areas.length > 1 ? "Send the results" : "Send the result",
      ),
    );
  }
}
