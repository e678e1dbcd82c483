"""Functions that users offer, and turns that call them: because numbers are too large, because the user asked, or to
look something up."""

import json
from dataclasses import dataclass, field

from . import Turn, arithmetic
from .arithmetic import SIGNS
from .asking import operation_question
from .columns import COPY, Chain
from .phrasing import dress
from .vocabulary import function, invented, joined, key, pair, word
from .words import NAMES, NOUNS, OBJECTS, PEOPLE, PLACES

SAYS = {
    "add": "Adds two numbers.|Returns the sum of two numbers.|Add two numbers|Calculates a + b|addition of large numbers|Sums up two numbers of any size.|Gives the total of both numbers",
    "subtract": "Subtracts the second number from the first.|Returns the difference of two numbers.|Subtract two numbers|Calculates a - b|subtraction of large numbers|Takes one number from another.",
    "multiply": "Multiplies two numbers.|Returns the product of two numbers.|Multiply two numbers|Calculates a * b|multiplication of large numbers|Product of two numbers of any size.",
    "divide": "Divides the first number by the second.|Returns the quotient of two numbers.|Divide two numbers|Calculates a / b|division of large numbers|Divides numbers of any size.",
    "expression": "Evaluates an arithmetic expression.|Calculates the value of an expression.|A calculator.|Evaluate a mathematical expression|Works out an expression such as 2 * 3.|Calculator for large numbers",
    "choice": "Calculates with two numbers.|Applies an operation to two numbers.|Basic arithmetic on two numbers|A calculator for two numbers.|Does the chosen operation",
}
SAYS = {k: v.split("|") for k, v in SAYS.items()}
LOOKS = """Returns the {n} of {k}.|Looks up the {n}.|Get the {n} for a given {k}|Finds the {n} of a {k}.|Tells the current {n}.|{n} lookup|Gives the {n}.|Fetch the {n} by {k}.|Reads the {n} from the database.""".split("|")
VALUES = "the first number|the second number|a number|an operand|any whole number|value to use".split("|")
ASKS = """What is the {n} of {v}?|What is the {n} in {v}?|What's the {n} for {v}?|Look up the {n} of {v}.|Find the {n} for {v}.|Tell me the {n} of {v}.|Can you get the {n} of {v}?|{n} of {v}?|{n} for {v}
I need the {n} of {v}.|Give me the {n} of {v}, please.|Check the {n} of {v}.|Do you know the {n} of {v}?|Please fetch the {n} for {v}.|Show me the {n} of {v}.|get {n} of {v}|How is the {n} in {v}?
Use {f} for {v}.|Call {f} with {v}.|Please call {f} for {v}.|Use the function {f} to find the {n} of {v}.|Ask {f} about {v}.|Run {f} on {v}.""".replace("\n", "|").split("|")
USES = {
    "add": "Use {f} to add {a} and {b}.|Call {f} with {a} and {b}.|Add {a} and {b} with {f}.|Use the tool to add {a} and {b}.|What is {a} + {b}? Use {f}.|What is {a} plus {b}? Use the tool.|Use the function to work out {a} + {b}.|Please call {f} for {a} + {b}.|With the tool: {a} + {b}|{a}+{b}, use the tool",
    "subtract": "Use {f} to subtract {b} from {a}.|Call {f} with {a} and {b}.|Take {b} from {a} with {f}.|Use the tool to subtract {b} from {a}.|What is {a} - {b}? Use {f}.|What is {a} minus {b}? Use the tool.|Use the function to work out {a} - {b}.|Please call {f} for {a} - {b}.|With the tool: {a} - {b}|{a}-{b}, use the tool",
    "multiply": "Use {f} to multiply {a} and {b}.|Call {f} with {a} and {b}.|Multiply {a} by {b} with {f}.|Use the tool to multiply {a} by {b}.|What is {a} * {b}? Use {f}.|What is {a} times {b}? Use the tool.|Use the function to work out {a} * {b}.|Please call {f} for {a} * {b}.|With the tool: {a} * {b}|{a}*{b}, use the tool",
    "divide": "Use {f} to divide {a} by {b}.|Call {f} with {a} and {b}.|Divide {a} by {b} with {f}.|Use the tool to divide {a} by {b}.|What is {a} / {b}? Use {f}.|What is {a} divided by {b}? Use the tool.|Use the function to work out {a} / {b}.|Please call {f} for {a} / {b}.|With the tool: {a} / {b}|{a}/{b}, use the tool",
}
USES = {k: v.split("|") for k, v in USES.items()}


@dataclass
class Tool:
    name: str
    description: str
    parameters: dict
    does: str = ""  # an operation, "expression", "choice" or "look"
    about: str = ""  # what a look-up finds

    def keys(self):
        return list(self.parameters["properties"])


@dataclass
class Call:
    before: list  # the analysis before it, as (text, weight)
    name: str
    arguments: str
    why: str
    result: str
    concise: str  # the summaries of the analysis before it
    detailed: str


@dataclass
class Calling(Turn):
    """A turn that calls functions: calls, then the analysis and the final answer after the last result. op is the
    operation, empty if something was looked up."""

    calls: list = field(default_factory=list)
    op: str = ""


def properties(rng, entries):
    out = {"type": "object", "properties": {k: v for k, v in entries}}
    if rng.random() < 0.9:
        out["required"] = [k for k, _ in entries]
    if rng.random() < 0.3:
        out["additionalProperties"] = False
    return out


def calculator(rng, does, fresh=False):
    """A function that calculates with two numbers, with two numbers and an operation's name, or with an expression."""
    number = {"type": rng.choice(("number", "integer"))}
    if does == "expression":
        k = rng.choice(("expression", "expr", "formula", "input",
            "query")) if not fresh and rng.random() < 0.5 else key(rng, fresh)
        entries = [(k, {"type": "string"})]
        if rng.random() < 0.4:
            entries[0][1]["description"] = rng.choice(("The expression, such as 12 * 3.", "what to calculate",
                "an arithmetic expression"))
    else:
        entries = [(k, dict(number)) for k in pair(rng, fresh)]
        if does == "choice":
            k = rng.choice(("op", "operation", "operator", "kind")) if not fresh and rng.random() < 0.5 else key(rng,
                fresh)
            if k in (entries[0][0], entries[1][0]):
                k += "_op"
            entries.insert(rng.choice((0, 2)), (k, {"type": "string", "enum": rng.sample(list(SIGNS), 4)}))
        if rng.random() < 0.25:
            for _, v in entries:
                v["description"] = rng.choice(VALUES) if "enum" not in v else "what to do"
    name = function(rng, fresh)
    if not fresh and rng.random() < 0.3:
        name = rng.choice({"add": ("add", "sum", "add_numbers", "plus"),
                           "subtract": ("subtract", "minus", "difference"), "multiply": ("multiply", "product",
                           "times", "mul"),
                           "divide": ("divide", "quotient", "div"), "expression": ("calculator", "calc", "evaluate",
                           "calculate"), "choice": ("calculator", "calculate", "arithmetic", "compute")}[does])
    return Tool(name, rng.choice(SAYS[does]), properties(rng, entries), does)


def lookup(rng, fresh=False):
    """A function that looks something up by one value."""
    from . import unseen

    about = word(rng, NOUNS, unseen.NOUNS, fresh)
    k = rng.choice(("city", "name", "location", "place", "id", "person", "query",
        "key")) if not fresh and rng.random() < 0.4 else key(rng, fresh)
    name = joined(rng, rng.choice((["get", about], ["find", about], [about, "lookup"], ["fetch", about], [about],
        ["read", about], ["look", "up", about])))
    value = {"type": "string"}
    if rng.random() < 0.3:
        value["description"] = f"the {k}"
    return Tool(name, rng.choice(LOOKS).format(n=about, k=k), properties(rng, [(k, value)]), "look", about)


def toolset(rng, fresh=False, sizes=(1, 1, 2, 2, 3)):
    """One to three functions, or as many as sizes say, with different names."""
    out = []
    for _ in range(rng.choice(sizes)):
        t = lookup(rng, fresh) if rng.random() < 0.4 else calculator(rng,
            rng.choice(("add", "subtract", "multiply", "multiply", "divide", "expression", "expression", "choice")),
            fresh)
        if all(t.name != o.name and (t.does != o.does or t.does == "look" and t.about != o.about) for o in out):
            out.append(t)
    return out


def large_pair(rng, op):
    """Two numbers that are too large for arithmetic.py, and their whole result."""
    big = lambda: rng.randrange(1000, 10 ** rng.choice((4, 5, 5, 6, 7)))
    if op == "multiply":
        a, b = rng.randrange(100, 10 ** rng.choice((3, 4, 5))), rng.randrange(100, 10 ** rng.choice((3, 3, 4)))
        return a, b, a * b
    if op == "divide":
        q, b = rng.randrange(100, 10000), rng.randrange(12, 500)
        return q * b, b, q
    a, b = big(), big() if rng.random() < 0.6 else rng.randrange(10, 1000)
    if op == "add":
        return (a, b, a + b) if rng.random() < 0.7 else (b, a, a + b)
    return max(a, b), min(a, b), abs(a - b)


def small_pair(rng, op):
    if op == "divide":
        q, b = rng.randrange(1, 50), rng.randrange(2, 10)
        return q * b, b, q
    if op == "multiply":
        a, b = rng.randrange(2, 100), rng.randrange(2, 100)
        return a, b, a * b
    a, b = rng.randrange(1, 1000), rng.randrange(1, 1000)
    return (a, b, a + b) if op == "add" else (max(a, b), min(a, b), abs(a - b))


def serves(tool, op):
    return tool.does in (op, "expression", "choice")


def arguments(tool, op, a, b):
    if tool.does == "expression":
        return {tool.keys()[0]: f"{a} {SIGNS[op]} {b}"}
    numbers = [a, b]
    return {k: op if "enum" in v else numbers.pop(0) for k, v in tool.parameters["properties"].items()}


def shown(rng, n, names=("result", "value", "answer", "output", "total")):
    """A function's result in the form that functions return."""
    roll = rng.random()
    if roll < 0.45:
        return str(n) if isinstance(n, int) or rng.random() < 0.5 else json.dumps(n, ensure_ascii=False)
    k = rng.choice(names) if rng.random() < 0.6 else invented(rng)
    inner = {k: n}
    if roll > 0.9:
        inner = {"status": "ok", k: n} if rng.random() < 0.5 else {k: n, "error": None}
    return json.dumps(inner, ensure_ascii=False, separators=rng.choice(((",", ":"), (", ", ": "))))


ERRORS = "timeout|not found|service unavailable|invalid input|permission denied|no such entry|rate limit exceeded|internal error".split("|")


def named(c, before, name):
    """Writes a name after some words. The space between belongs to the name's first token."""
    c.say(before)
    c.parts.append((" " + name, COPY))


def quoted(c, before, value):
    """Writes a function's result after some words."""
    if str(value).isdigit():
        c.say(before + " ")
        c.read(value)
    else:
        named(c, before, str(value))


def told(c, effort, task, reason, tool, given):
    """The analysis up to a call. task writes what was asked; reason says why a function is called."""
    task(c)
    c.say((" " if effort == "low" else "\n") + reason)
    if effort == "low":
        before = ", so I call"
    elif effort == "medium":
        before = ", but there is a function that can help. I call"
    else:
        before = ", but I look at the functions that I was given, and one of them can help.\nI call"
    named(c, before, tool.name)
    c.say(".")
    if effort == "high":
        named(c, " What I give it:", json.dumps(given, ensure_ascii=False))
        c.say(".")


def after(c, effort, tool, value):
    """The analysis after a result."""
    if effort == "high":
        named(c, "The function", tool.name)
        quoted(c, " has answered, and I pass on what it says, which is", value)
    elif effort == "medium":
        c.parts.append((tool.name, COPY))
        quoted(c, " has answered with", value)
    else:
        quoted(c, "It gives", value)
    c.say(".")


def outcome(value, failed=False):
    """The summaries of the analysis after a result."""
    return ("It failed.", "A function was called, and it failed.") if failed else (f"It gave {value}.",
        f"A function was called, and it gave {value}.")


def fail(c, effort, tool, error):
    if effort != "low":
        c.say("The function has no result for me. ")
    named(c, "It failed:", error)
    c.say(".")
    return f"The function {tool.name} failed: {error}."


def compute(rng, effort, tool, op, a, b, n, question, asked):
    """A turn in which a function calculates."""
    given = arguments(tool, op, a, b)
    c = Chain(rng)
    told(c, effort, lambda c: arithmetic.name(c, op, a, b, effort), "I was asked to use a function" if asked
        else "The numbers are too large for me", tool, given)
    why = f"I was asked to use {tool.name}." if asked else f"The numbers are too large for me, and {tool.name} can work with them."
    d, result = Chain(rng), shown(rng, n)
    final, value = f"{a} {SIGNS[op]} {b} = {n}.", n
    failed = rng.random() < 0.04
    if failed:
        value = rng.choice(ERRORS)
        result = json.dumps({"error": value})
        final = fail(d, effort, tool, value)
    else:
        after(d, effort, tool, n)
    call = Call(c.parts, tool.name, json.dumps(given, ensure_ascii=False), why, result, "A function works that out.",
                "A function was asked for, so one works that out." if asked
                else "The numbers are too large, so a function works that out.")
    concise, detailed = outcome(value, failed)
    return Calling(question=question, analysis=d.parts, final=final, kind="tool", result=value, numbers=[a, b],
                   calls=[call], direct=False, op=op,
                   concise=concise, detailed=detailed)


def find(rng, effort, tool, fresh=False):
    """A turn in which a function looks something up."""
    from . import unseen

    roll = rng.random()
    if fresh:
        value = rng.choice(unseen.NAMES)
    elif roll < 0.25:
        value = rng.choice(PLACES)
    elif roll < 0.4:
        value = rng.choice(PEOPLE)
    elif roll < 0.55:
        value = rng.choice(NAMES)
    elif roll < 0.65:
        value = rng.choice(NOUNS) if rng.random() < 0.5 else rng.choice(OBJECTS)
    elif roll < 0.85:
        value = " ".join(invented(rng).capitalize() for _ in range(rng.choice((1, 1, 2))))
    else:
        value = str(rng.randrange(10, 10 ** rng.choice((3, 4, 6))))
    question = rng.choice(ASKS).format(n=tool.about, v=value, f=tool.name)
    if rng.random() < 0.5:
        question = question[0].upper() + question[1:]
    given = {tool.keys()[0]: value}
    c = Chain(rng)

    def task(c):
        named(c, "I am asked for the", tool.about)
        named(c, " of", value)
        c.say(".")

    told(c, effort, task, "I do not know that", tool, given)
    roll = rng.random()
    found = rng.randrange(1, 10 ** rng.choice((1, 2, 3,
        4))) if roll < 0.45 else rng.choice(OBJECTS) if roll < 0.6 else " ".join(
        invented(rng) if rng.random() < 0.5 else rng.choice(NOUNS) for _ in range(rng.choice((1, 2, 3))))
    d, result = Chain(rng), shown(rng, found, (tool.about, "result", "value"))
    final = f"The {tool.about} of {value} is {found}."
    failed = rng.random() < 0.04
    if failed:
        found = rng.choice(ERRORS)
        result = json.dumps({"error": found})
        final = fail(d, effort, tool, found)
    else:
        after(d, effort, tool, found)
    call = Call(c.parts, tool.name, json.dumps(given, ensure_ascii=False),
                f"I do not know the {tool.about} of {value}, and {tool.name} can look it up.", result,
                "A function looks that up.", "That is not known to me, so a function looks it up.")
    concise, detailed = outcome(found, failed)
    return Calling(question=question, analysis=d.parts, final=final, kind="tool", result=found, calls=[call],
        direct=False, concise=concise, detailed=detailed)


def turn(rng, effort, tools, fresh=False):
    """A turn that calls one of the tools, or None if none suits the draw."""
    tool = rng.choice(tools)
    if tool.does == "look":
        return find(rng, effort, tool, fresh)
    op = tool.does if tool.does in SIGNS else rng.choice(list(SIGNS))
    if [t for t in tools if serves(t, op)] != [tool]:
        return None
    asked = rng.random() < 0.35
    if asked:
        a, b, n = small_pair(rng, op) if rng.random() < 0.7 else large_pair(rng, op)
        question = dress(rng, rng.choice(USES[op]).format(f=tool.name, a=a,
            b=b)) if rng.random() < 0.3 else rng.choice(USES[op]).format(f=tool.name, a=a, b=b)
    else:
        a, b, n = large_pair(rng, op)
        question = operation_question(rng, op, a, b)
    return compute(rng, effort, tool, op, a, b, n, question, asked)


def beyond(question, tools):
    """Whether one of the tools may serve for tasks that the model cannot do alone, such as large numbers."""
    return any(t.does != "look" for t in tools) and any(ch.isdigit() for ch in question)


def choose(rng, tools):
    """For drills: a task as an analysis names it, its function and the arguments, or None if none suits the draw."""
    tool = rng.choice([t for t in tools if t.does != "look" or rng.random() < 0.5] or tools)
    c = Chain(rng)
    if tool.does == "look":
        value = invented(rng).capitalize() if rng.random() < 0.7 else rng.choice(PLACES + NOUNS)
        c.say(f"I am asked for the {tool.about} of {value}.")
        return c.parts, tool.name, {tool.keys()[0]: value}
    op = tool.does if tool.does in SIGNS else rng.choice(list(SIGNS))
    if [t for t in tools if serves(t, op)] != [tool]:
        return None
    a, b, _ = (large_pair if rng.random() < 0.7 else small_pair)(rng, op)
    arithmetic.name(c, op, a, b, rng.choice(("low", "medium")))
    return c.parts, tool.name, arguments(tool, op, a, b)


def rationale(call, number):
    """The block that decision tracing asks for before a call."""
    return f'<rationale call="{number}">' + json.dumps({"why": call.why}, ensure_ascii=False) + "</rationale>"


# The summaries of the analysis before a plan with a call, and of one without.
PLANNED = {True: ("One call is planned.", "One step is planned, and it calls a function."),
           False: ("No call is planned.", "One step is planned, and it needs no function.")}


def plan(effort, turn):
    """The analysis before a plan, and the plan, of a turn: one step that calls a function, or one that needs none.
    PLANNED has the short analysis."""
    called = isinstance(turn, Calling)
    lead = "I plan one step that calls" if called else "No function is needed, so I plan to work it out"
    if effort != "low":
        lead = "I am asked for a plan and do nothing of it yet.\n" + lead
    if effort == "high":
        lead = "I look at what is asked and at the functions that there are.\n" + lead
    if not called:
        return [(lead + ".", 1.0)], {"steps": [{"purpose": "Work out what is asked, step by step, and say the result."}]}
    call = turn.calls[0]
    purpose = f"Work out {turn.numbers[0]} {SIGNS[turn.op]} {turn.numbers[1]}." if turn.op else "Look up what is asked."
    return [(lead, 1.0), (" " + call.name, COPY),
        (".", 1.0)], {"steps": [{"tool": call.name, "purpose": purpose, "rationale": {"why": call.why}}]}
