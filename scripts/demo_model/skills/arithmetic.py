"""Sums and differences of two whole numbers to 999, products of two to 99 or of one to 999 and a digit, and quotients
of one to 999 and a digit, with remainder."""

from . import Turn
from .asking import operation_question
from .columns import work

SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}

# The wording of the task around its two numbers: the verb, the number named first, and the word between.
TASKS = {"add": (" add", "a", " and "), "subtract": (" take", "b", " from "), "multiply": (" multiply", "a", " by "),
    "divide": (" divide", "a", " by ")}
PLANS = {
    "add": "I go digit by digit, from the right.\nWhat goes over ten is carried to the next digit.",
    "subtract": "I compare the two numbers first, to see which of them is larger.\n"
                "Then I go digit by digit, from the right, and where a digit is too small I take ten from its neighbour.",
    "multiply": "I go digit by digit, from the right.\nWhat goes over ten is kept and added to the next product. The digits then make the result.",
    "divide": "I go digit by digit, from the left.\nWhat is left over goes to the next digit as tens. The digits then make the result.",
}
TWO_DIGITS = ("I multiply by the ones first, then by the tens with a zero put after them.\n"
              "What goes over ten is kept and added to the next product. In the end I add both.")
BACK = "To check the result, I go back by the inverse operation.\nIf nothing went wrong, I come to the number that I started from."
LAST_DIGITS = "To check the result, I look at the last digits of both numbers.\nTheir product must end in the same digit as the whole product does."

POSTHOC = {"add": "Adding {a} and {b} gives {r}.", "subtract": "Taking {b} from {a} leaves {r}.",
           "multiply": "Multiplying {a} by {b} gives {r}.",
           "divide": "Dividing {a} by {b} gives {r}."}
DONE = {"add": "Adding", "subtract": "Subtracting", "multiply": "Multiplying", "divide": "Dividing"}


def held_out(a, b):
    """One pair in twenty, in either order, is never trained on: only evaluation asks these. Pairs of single digits
    are all trained."""
    low, high = min(a, b), max(a, b)
    return high > 9 and ((low * 1009 + high * 9176 + 12345) * 2654435761 >> 9) % 20 == 0


def operand(rng):
    if rng.random() < 0.5:
        return rng.randrange(1000)
    digits = rng.choice((1, 2, 2, 3, 3))
    return rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10 ** digits)


def draw(rng, kind):
    # New users try 1+1 first, so small numbers come far more often than by chance.
    tiny = rng.random() < 0.1
    if kind == "multiply":
        if tiny:
            return rng.randrange(13), rng.randrange(13)
        roll = rng.random()
        a = rng.randrange(100, 1000) if roll > 0.9 else rng.randrange(10, 100)
        b = rng.randrange(10, 100) if roll < 0.65 else rng.randrange(10)
        return (a, b) if rng.random() < 0.5 else (b, a)
    if kind == "divide":
        b = rng.randrange(1, 10)
        if tiny or rng.random() < 0.25:
            return b * rng.randrange(11 if tiny else 999 // b + 1), b
        return rng.randrange(rng.choice((100, 1000, 1000))), b
    return (rng.randrange(13), rng.randrange(13)) if tiny else (operand(rng), operand(rng))


def pair(rng, trained=True, kind="add"):
    """Two numbers for an operation, from the trained or the held-out ones."""
    while True:
        a, b = draw(rng, kind)
        if held_out(a, b) != trained:
            return a, b


def name(c, kind, a, b, effort):
    """Writes the task and its numbers."""
    verb, first, between = TASKS[kind]
    c.say("I" if effort == "low" else "The task is to")
    c.hard(verb)
    c.say(" ")
    c.read(a if first == "a" else b)
    c.say(between)
    c.read(b if first == "a" else a)
    c.say(".")


def introduce(c, kind, a, b, effort):
    name(c, kind, a, b, effort)
    if effort != "low":
        c.say("\n" + (TWO_DIGITS if kind == "multiply" and min(a, b) > 9 else PLANS[kind]))
    c.say(" " if effort == "low" else "\n")


def combine(c, kind, a, b, effort):
    """Writes the columns and returns their result: a number, or quotient and remainder."""
    if kind == "add":
        return c.add(a, b)
    if kind == "multiply":
        return c.mul(b, a) if len(str(a)) < len(str(b)) else c.mul(a, b)
    if kind == "divide":
        return c.div(a, b)
    less = c.less(a, b)
    c.say(", so")
    gap = " " if effort == "low" else "\n"
    if less:
        c.hard(" minus")
        c.say(gap)
    else:
        c.hard(gap)
    n = c.sub(max(a, b), min(a, b))
    if not less or n == 0:
        return n
    c.say(", with the minus -")
    return -c.result(n)


def lead_back(c, kind, a, b, told):
    """Reverses the operation and returns whether it gives the first number."""
    if kind == "add":
        return c.sub(told, b) == a
    if kind == "subtract":
        return c.add(abs(told), min(a, b)) == max(a, b)
    if kind == "divide":
        back = c.times(told[0], b)
        if told[1]:
            c.say("; ")
            back = c.add(back, told[1])
        return back == a
    few, many = sorted((a, b), key=lambda n: len(str(n))) if len(str(a)) != len(str(b)) else (b, a)
    return c.div(told, few) == (many, 0)


def check(c, kind, a, b, told):
    """Checks the result by another method and returns whether it is right."""
    c.slip_at, places = None, c.places
    if kind == "multiply" and (min(a, b) > 9 or min(a, b) == 0):
        c.say(f".\n{LAST_DIGITS}\n")
        last = c.times(a % 10, b % 10) % 10
        c.say(f"; {told} ends in {told % 10}")
        fits = told % 10 == last
    else:
        c.say(f".\n{BACK}\n")
        fits = lead_back(c, kind, a, b, told)
    c.places = places
    c.say(", and that")
    c.hard(" fits" if fits else " fails")
    return fits


def shown(told):
    """The result in the form of the answer."""
    if isinstance(told, tuple):
        return f"{told[0]} remainder {told[1]}" if told[1] else str(told[0])
    return str(told)


def changed_afterwards(rng, parts, done, told):
    """A finished analysis with a changed result. It is context only, and the answer follows the changed result."""
    n = abs(told)
    start = done - len(str(n))
    i = rng.randrange(start, done)
    digit = rng.choice([d for d in "0123456789" if d != parts[i][0] and (d != "0" or i > start or n < 10)])
    other = int("".join(t for t, _ in parts[start:i]) + digit + "".join(t for t, _ in parts[i + 1:done]))
    return [(digit if j == i else t, 0.0) for j, (t, _) in enumerate(parts)], -other if told < 0 else other


def summaries(kind, effort, r):
    if effort == "low":
        short = f"So {r}." if kind == "divide" else f"It makes {r}."
        return short, short
    if effort == "medium":
        return f"{DONE[kind]} gives {r}.", f"{DONE[kind]} digit by digit gives {r}."
    return f"{DONE[kind]} gives {r}, and it fits.", f"{DONE[kind]} digit by digit gives {r}, and the check agrees."


def build(rng, kind, a, b, question, effort, slip=None):
    """The Turn for one question; slip is None, "during" or "after"."""
    def write(c):
        introduce(c, kind, a, b, effort)
        told = combine(c, kind, a, b, effort)
        c.done()
        sound = effort != "high" or check(c, kind, a, b, told)
        c.say(".")
        return told, sound

    chain, (told, sound) = work(rng, write, slip == "during")
    parts = chain.parts
    if slip == "after" and kind != "divide":
        parts, told = changed_afterwards(rng, parts, chain.known, told)
        sound = False
    r = shown(told)
    concise, detailed = summaries(kind, effort, r) if sound else ("", "")
    return Turn(
        question=question, analysis=parts, final=f"{a} {SIGNS[kind]} {b} = {r}.", concise=concise, detailed=detailed,
        posthoc=POSTHOC[kind].format(a=a, b=b, r=r), direct=all(w for _, w in parts), complete=chain.known, kind=kind,
        result=r if " " in r else int(r), numbers=[a, b])


def turn(rng, effort, slips=True, fresh=False):
    kind = rng.choice(("add", "subtract", "multiply", "divide"))
    a, b = pair(rng, not fresh, kind)
    if kind == "subtract" and a < b and rng.random() < 0.3:
        a, b = b, a
    question = operation_question(rng, kind, a, b)
    slip = None
    if slips and rng.random() < 0.22:
        slip = rng.choice(("during", "during", "during", "after"))
    return build(rng, kind, a, b, question, effort, slip)
