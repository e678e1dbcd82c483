"""JSON answers: schemas with keys that nobody has seen, and the values of a turn under those keys.

Keys alone do not say what to put where, so the model learns these rules: a whole number is the result (of three, the
first two are the operands); a string is the answer as a sentence; a list of whole numbers is the numbers of the task;
a choice among operations is the one used; and a boolean is false if the answer is no, otherwise true.
"""

import json

from .vocabulary import key

OPERATIONS = ("add", "subtract", "multiply", "divide")
INNER = ("time", "money", "units")  # their numbers are those that are worked with, not those of the question
ABOUT = ("The result.", "What comes out.", "The answer.", "the final number", "The number asked for.",
    "Result as a whole number.")
PLANS = (("int",), ("int",), ("int",), ("text",), ("text",), ("int", "text"), ("text", "int"), ("int", "list"),
         ("list", "int"), ("list",),
         ("op", "int"), ("int", "op"), ("text", "int", "list"), ("bool", "int"), ("bool",), ("int", "int", "int"),
         ("int", "int", "int"), ("nested",))


def plan(rng):
    return rng.choice(PLANS)


def suits(parts, turn):
    """Whether a turn has a value for every part of a plan."""
    whole = isinstance(turn.result, int)
    if parts == ("bool",):
        return turn.result in ("yes", "no")
    for p in set(parts):
        if p in ("int", "nested") and not whole or p == "list" and (not turn.numbers
                or turn.kind in INNER) or p == "op" and turn.kind not in OPERATIONS:
            return False
    return parts.count("int") < 3 or len(turn.numbers) == 2


class Schema:
    """A JSON Schema of an object, and its values."""

    def __init__(self, rng, parts, fresh=False):
        self.parts, self.keys = parts, []
        while len(self.keys) < len(parts):
            k = key(rng, fresh)
            if k not in self.keys:
                self.keys.append(k)
        self.inner = key(rng, fresh)
        number = rng.choice(("integer", "integer", "number"))
        kinds = {"int": {"type": number}, "text": {"type": "string"},
                 "list": {"type": "array", "items": {"type": "integer"}},
                 "bool": {"type": "boolean"}, "op": {"type": "string", "enum": rng.sample(OPERATIONS, 4)},
                 "nested": {"type": "object", "properties": {self.inner: {"type": number}}, "required": [self.inner]}}
        properties = {}
        for k, p in zip(self.keys, parts):
            properties[k] = dict(kinds[p])
            if p == "int" and parts.count(p) == 1 and rng.random() < 0.25:
                properties[k]["description"] = rng.choice(ABOUT)
        self.schema = {"type": "object", "properties": properties}
        if rng.random() < 0.85:
            self.schema["required"] = list(self.keys)
        if rng.random() < 0.6:
            self.schema["additionalProperties"] = False
        self.name = "answer" if rng.random() < 0.5 else key(rng, fresh)

    def text(self):
        """The section of the developer message."""
        return f"# Response Formats\n\n## {self.name}\n\n" + json.dumps(self.schema, separators=(",", ":"),
            ensure_ascii=False)

    def value(self, turn):
        whole = turn.result if isinstance(turn.result, int) else 0
        numbers = [*turn.numbers, whole] if self.parts.count("int") == 3 else [whole]
        out = {}
        for k, p in zip(self.keys, self.parts):
            if p == "int":
                out[k] = numbers.pop(0)
            else:
                out[k] = {"text": turn.final, "list": turn.numbers, "bool": turn.result != "no", "op": turn.kind,
                    "nested": {self.inner: whole}}[p]
        return out

    def answer(self, turn):
        """The value as the model writes it."""
        return json.dumps(self.value(turn), ensure_ascii=False)


# Described in words, without a schema.
TOLD = """Answer in JSON.|Respond in JSON.|Reply with JSON only.|Give the answer as JSON.|Output JSON.|Respond with a JSON object.|Always answer in JSON.
Answer with a JSON object and nothing else.|Return JSON.|Use JSON for your answer.|Your output must be valid JSON.""".replace("\n", "|").split("|")


def loose(turn):
    """The answer if JSON was asked for in words."""
    return json.dumps({"answer": turn.final if turn.result is None else turn.result}, ensure_ascii=False)
