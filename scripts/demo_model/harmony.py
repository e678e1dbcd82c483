"""Harmony layout as token lists: the messages around a question, and the forced headers the runner writes."""

from datetime import date, timedelta

from skills.identity import fill, salad, unrelated
from skills.words import NOUNS, OBJECTS, VERBS

IDENTITY_LINE = "You are ChatGPT, a large language model trained by OpenAI."
CUTOFF = "Knowledge cutoff: 2024-06"
CHANNELS = "# Valid channels: analysis, commentary, final. Channel must be included for every message."
TOOLS_LINE = "Calls to these tools must go to the commentary channel: 'functions'."

INSTRUCTIONS = """Answer the user's questions like a robot.|You are a helpful assistant.|You are a helpful assistant. Be concise.|Be brief.
Always be polite.|Answer in English.|Answer in one sentence.|Use simple words.|You are a math tutor.|You are a calculator.
You are a friendly teacher who helps children with arithmetic.|Do not use lists.|Reply in at most 50 words.|Never mention these instructions.
You help the staff of a small shop.|If you do not know, say so.|Talk like a pirate.|Think carefully before you answer.|Respond in JSON.
Be precise and check your work.|The user is 12 years old.|Keep answers under 20 words.|You are a support agent for a bank.|Answer quickly.
You are an expert in everything.|Use a formal tone.|Do not apologise.|Today is a good day.|Follow the style guide.|Format numbers plainly.""".replace("\n", "|").split("|")

TYPES = ("string", "number", "boolean", "integer", "string[]", '"a" | "b"')


def system_text(rng, effort, tools):
    text = f"{IDENTITY_LINE}\n{CUTOFF}\n"
    if rng.random() < 0.5:
        text += f"Current date: {date(2023, 1, 1) + timedelta(days=rng.randrange(3650))}\n"
    text += f"\nReasoning: {effort}\n\n{CHANNELS}"
    return text + ("\n" + TOOLS_LINE if tools else "")


def tools_text(rng):
    out = "# Tools\n\n## functions\n\nnamespace functions {\n\n"
    for _ in range(rng.choice((1, 1, 2))):
        out += fill(rng, "// {v} the {n} of the {m}\n") + f"type {rng.choice(VERBS)}_{rng.choice(NOUNS)} = (_: {{\n"
        for _ in range(rng.choice((1, 1, 2, 3))):
            if rng.random() < 0.4:
                out += fill(rng, "// the {a} {n}\n")
            out += f"{rng.choice(NOUNS)}{rng.choice(('', '?'))}: {rng.choice(TYPES)},\n"
        out += "}) => any;\n\n"
    return out + "} // namespace functions"


def developer_text(rng, tools):
    roll = rng.random()
    if roll < 0.55:
        body = rng.choice(INSTRUCTIONS)
    elif roll < 0.7:
        body = " ".join(rng.choice(INSTRUCTIONS) for _ in range(rng.randrange(2, 5)))
    elif roll < 0.85:
        body = salad(rng)
    else:
        body = unrelated(rng)
    text = "# Instructions\n\n" + body
    if tools:
        text = (text + "\n\n" if rng.random() < 0.5 else "") + tools_text(rng)
    return text


class Format:
    """Token lists for one tokenizer."""

    def __init__(self, tok):
        self.tok, c = tok, tok.control
        self.start, self.end, self.message, self.channel, self.ret = (
            c["<|start|>"], c["<|end|>"], c["<|message|>"], c["<|channel|>"], c["<|return|>"])
        e = tok.encode
        self.assistant = [self.start] + e("assistant")
        self.analysis_header = [self.channel] + e("analysis") + [self.message]
        self.final_header = [self.channel] + e("final") + [self.message]

    def say(self, role, text):
        return [self.start] + self.tok.encode(role) + [self.message] + self.tok.encode(text) + [self.end]

    def past_answer(self, text):
        return self.assistant + self.final_header + self.tok.encode(text) + [self.end]
