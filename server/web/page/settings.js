// The settings of a conversation: the controls above the messages and those in the drawer.
import { $ } from "./dom.js";

const texts = [
  "model",
  "model-name",
  "effort",
  "visibility",
  "system",
  "temperature",
  "top_p",
  "min_p",
  "max_tokens",
  "seed",
  "budget",
  "schema",
  "tools",
  "specialist",
  "compare-model",
  "compare-effort",
];
const checks = ["delegate", "keep", "carry", "trace", "rationale", "compare"];

// read returns the settings as the controls have them.
export function read() {
  const s = {};
  for (const id of texts) s[id] = $(id).value;
  for (const id of checks) s[id] = $(id).checked;
  return s;
}

// show sets the controls. What is missing gets its default.
export function show(s, defaults) {
  for (const id of texts) {
    const value = s[id] ?? defaults[id] ?? "";
    $(id).value = value;
    if ($(id).tagName === "SELECT" && $(id).selectedIndex < 0)
      $(id).value = defaults[id] ?? $(id).options[0]?.value ?? "";
  }
  for (const id of checks) $(id).checked = s[id] ?? defaults[id] ?? false;
  for (const id of ["schema", "tools"]) $(`${id}-example`).hidden = $(id).value.trim() !== "";
  check();
}

function parse(id, good) {
  const text = $(id).value.trim();
  let error = "";
  let value;
  if (text) {
    try {
      value = JSON.parse(text);
      if (!good(value))
        error = id === "tools" ? "It takes a list of objects with a name." : "It takes a JSON object.";
    } catch (e) {
      error = `This is not JSON: ${e.message}`;
    }
  }
  $(`${id}-error`).textContent = error;
  $(id).setAttribute("aria-invalid", error !== "");
  return error ? undefined : value;
}

const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

// check reads the schema and the tools, and says below them what is wrong. It reports whether nothing is.
export function check() {
  parse("schema", isObject);
  parse("tools", (v) => Array.isArray(v) && v.every((t) => isObject(t) && typeof t.name === "string"));
  return !$("schema-error").textContent && !$("tools-error").textContent;
}

// fields returns the fields of a request.
export function fields(s) {
  const f = {
    model: s["model-name"] || s.model || "",
    reasoning: s.visibility || "none",
    reasoning_seal: s.carry,
    keep_reasoning: s.keep,
    rationale: s.rationale,
  };
  if (s.effort) f.reasoning_effort = s.effort;
  if (s.trace) f.reasoning_encrypt = true;
  for (const id of ["temperature", "top_p", "min_p", "max_tokens", "seed"])
    if (s[id] !== "" && s[id] !== undefined) f[id] = Number(s[id]);
  if (s.budget) f.reasoning_budget = Number(s.budget);
  if (s.schema?.trim()) f.schema = JSON.parse(s.schema);
  if (s.tools?.trim()) f.tools = JSON.parse(s.tools);
  if (s.delegate || s.specialist?.trim()) {
    f.delegation = {};
    if (s.delegate) f.delegation.allow = true;
    if (s.specialist?.trim()) f.delegation.agent_prompt = s.specialist;
  }
  return f;
}

const exampleSchema = JSON.stringify(
  {
    type: "object",
    properties: { sum: { type: "integer" }, unit: { enum: ["apples", "pears"] } },
    required: ["sum", "unit"],
    additionalProperties: false,
  },
  null,
  2,
);
const exampleTools = JSON.stringify(
  [
    {
      name: "get_weather",
      description: "Returns the weather of a city.",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  ],
  null,
  2,
);

// watch calls change when the user changes a setting.
export function watch(change) {
  for (const id of [...texts, ...checks])
    $(id).addEventListener("input", () => {
      check();
      change();
    });
}

// example fills an empty field with an example.
function example(field, button, text) {
  const hide = () => {
    button.hidden = field.value.trim() !== "";
  };
  field.addEventListener("input", hide);
  button.addEventListener("click", () => {
    field.value = text;
    field.dispatchEvent(new Event("input"));
    field.focus();
  });
}

export function listen() {
  example($("schema"), $("schema-example"), exampleSchema);
  example($("tools"), $("tools-example"), exampleTools);
}
