// The composer: the message that is being written, and its files.
import { $, make } from "./dom.js";
import { notice, runs, state } from "./state.js";
import { again } from "./runs.js";

let files = []; // attached to the next message
let early = false; // a message was sent before there was a conversation

// buttons shows what the composer can do now.
export function buttons() {
  const busy = runs.has(state.current.id);
  $("send").hidden = busy;
  $("stop").hidden = !busy;
  const elsewhere = !busy && state.current.messages.some((m) => m.state === "running");
  $("send").disabled = elsewhere;
  if (elsewhere) notice("Another tab is answering this conversation.");
  clock();
}

// clock shows how long the answer takes, while it comes.
function clock() {
  const run = state.current && runs.get(state.current.id);
  $("live").textContent = run ? `${((performance.now() - run.began) / 1000).toFixed(1)} s` : "";
}

function send() {
  const text = $("message").value;
  const c = state.current;
  early = !c;
  if (early || $("send").disabled || (!text.trim() && !files.length)) return;
  const first = !c.messages.length;
  if (!again(c, c.messages.length, { role: "user", content: text, files })) return;
  $("notice").hidden = true;
  if (first) {
    c.title = (text.trim() || files[0].name).split("\n")[0].slice(0, 60);
    $("title").textContent = c.title;
    document.title = `${c.title} – runner`;
  }
  $("message").value = "";
  files = [];
  showFiles();
  grow();
}

// grow gives the field as many lines as its text has.
export function grow() {
  const area = $("message");
  area.rows = Math.min(12, Math.max(1, area.value.split("\n").length));
}

const maxFile = 1 << 20;
async function attach(list_) {
  for (const file of list_) {
    if (file.size > maxFile) {
      notice(`${file.name} is longer than 1 MiB.`);
      continue;
    }
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      if (text.includes("\0")) throw new TypeError();
      files.push({ name: file.name, text });
    } catch {
      notice(`${file.name} is not a text file.`);
    }
  }
  showFiles();
}

function showFiles() {
  $("files").replaceChildren(
    ...files.map((f, i) =>
      make(
        "li",
        {},
        f.name,
        make(
          "button",
          {
            type: "button",
            "aria-label": `Remove ${f.name}`,
            onclick: () => {
              files.splice(i, 1);
              showFiles();
            },
          },
          "×",
        ),
      ),
    ),
  );
}

// opened sends what was sent while the conversation was being opened.
export function opened() {
  if (early) send();
}

export function listen() {
  setInterval(clock, 200);
  $("composer").addEventListener("submit", (e) => {
    e.preventDefault();
    send();
  });
  $("message").addEventListener("input", grow);
  $("message").addEventListener("keydown", (e) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    }
  });
  $("stop").addEventListener("click", () => {
    runs.get(state.current.id)?.abort();
    $("message").focus();
  });
  $("attach").addEventListener("click", () => $("attach-file").click());
  $("attach-file").addEventListener("change", async (e) => {
    await attach(e.target.files);
    e.target.value = "";
  });
}
