// The view for operators: figures of the server, read every two seconds while it is open.
import { $, make } from "./dom.js";
import { get } from "./api.js";

let timer;
let before;

const bytes = (n) =>
  n >= 1 << 30
    ? `${(n / (1 << 30)).toFixed(2)} GiB`
    : n >= 1 << 20
      ? `${(n / (1 << 20)).toFixed(0)} MiB`
      : `${(n / 1024).toFixed(0)} KiB`;
const number = (n) => n.toLocaleString("en");

function table(caption, head, rows) {
  return make(
    "div",
    { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption },
    make("h3", {}, caption),
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...head.map((h) => make("th", { scope: "col" }, h)))),
      make("tbody", {}, ...rows.map((r) => make("tr", {}, ...r.map((c) => make("td", {}, String(c)))))),
    ),
  );
}

async function refresh() {
  try {
    const f = await get("/web/figures");
    const now = performance.now();
    const speed = (m) => {
      const old = before?.models.get(m.name);
      return old === undefined ? "…" : Math.max(0, ((m.tokens - old) / (now - before.now)) * 1000).toFixed(1);
    };
    const card = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
    $("operator-body").replaceChildren(
      make(
        "dl",
        { className: "cards" },
        card("Up for", `${Math.floor(f.uptime / 60)} min`),
        card("Requests now", f.requests),
        card(
          "Waiting",
          f.models.reduce((n, m) => n + m.waiting, 0),
        ),
        card("Memory", bytes(f.memory)),
        card("Still free", f.available ? bytes(f.available) : "unknown"),
      ),
      table(
        "Models",
        [
          "Model",
          "State",
          "Active",
          "Waiting",
          "Idle",
          "Tokens/s",
          "Tokens",
          "Context",
          "Files",
          "Engine",
          "Crashes",
        ],
        f.models.map((m) => [
          m.name,
          m.loaded ? "loaded" : "not loaded",
          m.active,
          m.waiting,
          m.idle,
          m.loaded ? speed(m) : "",
          number(m.tokens),
          m.context || "",
          bytes(m.size),
          m.memory ? bytes(m.memory) : "",
          m.crashes,
        ]),
      ),
      table(
        "Keys",
        ["Key", "Runs", "Prompt tokens", "Generated tokens"],
        f.keys.map((k) => [k.id, number(k.runs), number(k.prompt_tokens), number(k.completion_tokens)]),
      ),
    );
    before = { now, models: new Map(f.models.map((m) => [m.name, m.tokens])) };
  } catch (error) {
    $("operator-body").replaceChildren(make("p", { className: "failed", role: "alert" }, error.message));
  }
}

export function open() {
  const dialog = $("operator-dialog");
  before = undefined;
  dialog.showModal();
  refresh();
  clearInterval(timer);
  timer = setInterval(refresh, 2000);
  dialog.addEventListener("close", () => clearInterval(timer), { once: true });
}
