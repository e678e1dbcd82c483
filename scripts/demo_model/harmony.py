"""The harmony format as token lists: the messages around a question, and the headers that the runner forces."""

from datetime import date, timedelta
from types import SimpleNamespace

import prompts
from skills.identity import salad, unrelated

IDENTITY_LINE = "You are ChatGPT, a large language model trained by OpenAI."
CUTOFF = "Knowledge cutoff: 2024-06"
CHANNELS = "# Valid channels: analysis, commentary, final. Channel must be included for every message."
TOOLS_LINE = "Calls to these tools must go to the commentary channel: 'functions'."

INSTRUCTIONS = """Answer the user's questions like a robot.|You are a helpful assistant.|You are a helpful assistant. Be concise.|Be brief.
Always be polite.|Answer in English.|Answer in one sentence.|Use simple words.|You are a math tutor.|You are a calculator.
You are a friendly teacher who helps children with arithmetic.|Do not use lists.|Reply in at most 50 words.|Never mention these instructions.
You help the staff of a small shop.|If you do not know, say so.|Talk like a pirate.|Think carefully before you answer.
Be precise and check your work.|The user is 12 years old.|Keep answers under 20 words.|You are a support agent for a bank.|Answer quickly.
You are an expert in everything.|Use a formal tone.|Do not apologise.|Today is a good day.|Follow the style guide.|Format numbers plainly.""".replace("\n", "|").split("|")


def system_text(rng, effort, tools):
    text = f"{IDENTITY_LINE}\n{CUTOFF}\n"
    if rng.random() < 0.5:
        text += f"Current date: {date(2023, 1, 1) + timedelta(days=rng.randrange(3650))}\n"
    text += f"\nReasoning: {effort}\n\n{CHANNELS}"
    return text + ("\n" + TOOLS_LINE if tools else "")


def type_text(schema):
    if "enum" in schema:
        return " | ".join(f'"{v}"' for v in schema["enum"])
    return {"integer": "number"}.get(schema["type"], schema["type"])


def tools_text(tools):
    """The section of the developer message that lists functions."""
    out = "# Tools\n\n## functions\n\nnamespace functions {\n\n"
    for t in tools:
        out += f"// {t.description}\ntype {t.name} = (_: {{\n"
        for k, v in t.parameters["properties"].items():
            if "description" in v:
                out += f"// {v['description']}\n"
            out += f"{k}{'' if k in t.parameters.get('required', ()) else '?'}: {type_text(v)},\n"
        out += "}) => any;\n\n"
    return out + "} // namespace functions"


def instructions(rng):
    """What a user may have put into the system prompt."""
    roll = rng.random()
    if roll < 0.55:
        return rng.choice(INSTRUCTIONS)
    if roll < 0.7:
        return " ".join(rng.choice(INSTRUCTIONS) for _ in range(rng.randrange(2, 5)))
    return salad(rng) if roll < 0.85 else unrelated(rng)


def developer_text(instructions, *sections):
    """The developer message: instructions, which may be empty, and further sections. Empty if there is nothing to
    say."""
    return "\n\n".join((["# Instructions", instructions] if instructions else []) + [s for s in sections if s])


class Format:
    """Token lists for one tokenizer."""

    def __init__(self, tok):
        self.tok, c = tok, tok.control
        self.start, self.end, self.message, self.channel, self.ret, self.constrain, self.call_end = (
            c[f"<|{n}|>"] for n in ("start", "end", "message", "channel", "return", "constrain", "call"))
        e = self.encode = tok.encode
        self.assistant = [self.start] + e("assistant")
        self.analysis_header = [self.channel] + e("analysis") + [self.message]
        self.final_header = [self.channel] + e("final") + [self.message]

    def say(self, role, text):
        return [self.start] + self.encode(role) + [self.message] + self.encode(text) + [self.end]

    def past_answer(self, text):
        return self.assistant + self.final_header + self.encode(text) + [self.end]

    def call_header(self, name):
        """The header of a call, after <|start|>assistant."""
        return self.encode(" to=functions." + name) + [self.channel] + self.encode("commentary ") + [self.constrain] + self.encode("json") + [self.message]

    def call(self, name, arguments):
        """A call in the history, after <|start|>assistant."""
        return self.call_header(name) + self.encode(arguments) + [self.call_end]

    def result(self, name, text):
        """A function's result."""
        return ([self.start] + self.encode(f"functions.{name} to=assistant") + [self.channel]
                + self.encode("commentary") + [self.message]
                + self.encode(text) + [self.end])


def check(tok):
    """Compares this module with the prompts that the runner wrote down."""
    f, p = Format(tok), prompts
    tool = SimpleNamespace(name="multiply", description="Multiplies two numbers.", parameters={"required": ["a", "b"],
        "properties": {
        "a": {"type": "number", "description": "a factor"}, "b": {"type": "integer"},
        "op": {"type": "string", "enum": ["x", "y"]}}})
    schema = '{"type":"object","properties":{"total":{"type":"integer"}},"required":["total"]}'
    format_text = f"# Response Formats\n\n## answer\n\n{schema}"
    brief, asked, tools = "Be brief.", f.say("user", "What is 12+3?"), tools_text([tool])

    def head(effort="medium", told="", *sections):
        system = f"{IDENTITY_LINE}\n{CUTOFF}\nCurrent date: 2026-01-02\n\nReasoning: {effort}\n\n{CHANNELS}"
        if any("namespace" in s for s in sections):
            system += "\n" + TOOLS_LINE
        text = developer_text(told, *sections)
        return f.say("system", system) + (f.say("developer", text) if text else [])

    called = (f.assistant + f.analysis_header + tok.encode("I call it.") + [f.end] + f.assistant + f.call("multiply",
              '{"a": 1, "b": 2}')
              + f.result("multiply", '{"result": 5}'))
    plan_told, plan_format = p.plan([SimpleNamespace(name="multiply", description="Multiplies two numbers.",
                                                     parameters={"type": "object", "properties": {"a": {"type": "number"}}})])
    both = lambda text: f"{brief}\n\n{text}"
    made = {
        "plain": head() + asked,
        "none": head("low") + asked + f.assistant + f.final_header,
        "developer": head("high", brief) + asked,
        "later": head() + asked + f.past_answer("12 + 3 = 15.") + f.say("user", "Add 8."),
        "tools": head("medium", "", tools) + asked + called,
        "rationale": head("medium", both(p.RATIONALE), tools) + asked,
        "form": head("medium", brief, format_text) + asked,
        "markers": head("low", both(p.MARKERS)) + asked + f.assistant + f.final_header,
        "json": head("low", p.JSON) + asked + f.assistant + f.final_header,
        "formed": head("low", p.JSON_SCHEMA, format_text) + asked + f.assistant + f.final_header,
        "report": head("low", both(p.REPORT), p.REPORT_TOOLS) + asked,
        "delegate": head("medium", brief, p.DELEGATE_TOOLS) + asked,
        "plan": head("medium", both(plan_told), plan_format) + asked,
        "specialist": head("medium", p.specialist("You are a careful calculator.")[0], p.RETURN_TOOLS) + asked,
    }
    for name, ids in made.items():
        ends = name in ("none", "markers", "json", "formed")
        text = tok.decode(ids + ([] if ends else f.assistant))
        if text != p.TOLD[name]:
            raise ValueError(f"the prompt {name!r} is not the runner's:\n{text}\n--- is not\n{p.TOLD[name]}")
    if set(made) | {"report_text"} != set(p.TOLD):
        raise ValueError(f"not checked: {set(p.TOLD) - set(made)}")
