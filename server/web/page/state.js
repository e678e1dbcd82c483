// What the parts of the page share.
import { $, make } from "./dom.js";
import { newID } from "./store.js";

export const state = {
  tab: newID(),
  session: { max_reasoning: "full", reasoning: "none", models: [] },
  current: undefined, // the conversation that is shown
};

// The runs of this tab, by conversation.
export const runs = new Map();

export const capped = () => state.session.max_reasoning === "none";

export function notice(text, again) {
  $("notice").replaceChildren(text, again ? make("button", { className: "quiet", onclick: again }, "Try again") : "");
  $("notice").hidden = false;
}

export function askKey(why) {
  $("key-why").textContent = why;
  $("key-open").hidden = isSecureContext;
  $("key-input").value = "";
  if (!$("key-dialog").open) $("key-dialog").showModal();
}

export function drawer(shown) {
  $("drawer").hidden = !shown;
  $("settings").setAttribute("aria-expanded", shown);
  (shown ? $("system") : $("settings")).focus();
}

export function menu(shown) {
  $("side").classList.toggle("shown", shown);
  $("menu").setAttribute("aria-expanded", shown);
}
