// The page begins here: it learns what the server allows, and listens to the controls.
import { $, make } from "./dom.js";
import * as api from "./api.js";
import * as store from "./store.js";
import * as settings from "./settings.js";
import * as operator from "./operator.js";
import * as scroll from "./scroll.js";
import * as composer from "./composer.js";
import * as conversations from "./conversations.js";
import { askKey, drawer, menu, notice, runs, state } from "./state.js";

async function connect() {
  try {
    state.session = await api.get("/web/session");
    $("notice").hidden = true;
  } catch (error) {
    $("key").hidden = error.status !== 401;
    if (error.status === 401)
      return askKey(api.hasKey() ? "The server does not know this key." : "This server asks for an API key.");
    return notice(error.message, connect);
  }
  const options = (list) => list.map((m) => make("option", { value: m.name }, m.name));
  $("model").replaceChildren(...options(state.session.models ?? []));
  $("compare-model").replaceChildren(...options(state.session.models ?? []));
  $("model").hidden = !state.session.models?.length;
  $("model-name").hidden = !$("model").hidden;
  const most = ["none", "summary", "full"].indexOf(state.session.max_reasoning);
  [...$("visibility").options].forEach((option, i) => {
    option.disabled = i > most;
    option.textContent = ["hidden", "summary", "full"][i] + (i > most ? " (hidden by the server)" : "");
  });
  $("key").hidden = !state.session.keys;
  $("operator").hidden = !state.session.admin;
  $("trace-row").hidden = $("trace-help").hidden = !state.session.traces;
  if (state.current) conversations.show(state.current);
  if (!(await store.durable()))
    notice("This browser stores nothing for this page. Conversations are lost when it is closed.");
}

function listen() {
  composer.listen();
  conversations.listen();
  scroll.listen();
  settings.listen();
  settings.watch(() => {
    if (state.current && !runs.has(state.current.id)) state.current.settings = settings.read(); // a run keeps its settings
  });
  $("menu").addEventListener("click", () => menu(!$("side").classList.contains("shown")));
  document.addEventListener("pointerdown", (e) => {
    // On a narrow page the menu lies above its own button.
    if (!$("side").contains(e.target) && !$("menu").contains(e.target)) menu(false);
  });
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
  $("key").addEventListener("click", () => askKey("A new key replaces the one in use."));
  $("key-cancel").addEventListener("click", () => $("key-dialog").close());
  $("key-form").addEventListener("submit", () => {
    api.setKey($("key-input").value.trim(), $("key-keep").checked);
    $("key-input").value = "";
    connect();
  });
  $("operator").addEventListener("click", operator.open);
  $("operator-close").addEventListener("click", () => $("operator-dialog").close());
}

async function begin() {
  listen();
  await conversations.open(location.hash.slice(1));
  composer.opened();
  $("message").focus();
  await connect();
}

begin();
