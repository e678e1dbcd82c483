"""The layout of an analysis about measures, the same for all of them, and the conversion of a task to a Turn."""

import re
from dataclasses import dataclass, field

from .. import Turn
from ..columns import COPY, Impossible, work
from ..phrasing import WRAPS, dress, in_words
from ..stories import coined, person, things

# Digits, words with the space before them, signs and spaces: each is one or more whole tokens.
TOKENS = re.compile(r"\d| ?[A-Za-z]+| ?[^\sA-Za-z\d]+|\s+")


@dataclass
class Task:
    """A question and how it is worked out.

    ask says in one clause what is asked, with the numbers as they were read. plan says how, and check why the check
    works. solve(page) writes the work and returns a value. tell(page, value) writes it as the answer and returns what
    was written. show(value) formats it. verify(page, value) writes the check and returns whether it succeeds. final
    has {r} for the result.
    """

    question: str
    kind: str
    ask: str
    plan: str
    check: str
    solve: object
    tell: object
    show: object
    verify: object
    final: str
    posthoc: str
    numbers: list = field(default_factory=list)


class Page:
    """Writes the steps of one task into a chain."""

    def __init__(self, chain, effort):
        self.c, self.effort, self.gap = chain, effort, " " if effort == "low" else "\n"

    def quote(self, text):
        """Writes text from the question or from a line above. A word or sign takes the space before it along, because
        they are one token."""
        before, weight = self.c.parts[-1]
        if before.endswith(" ") and not text[0].isdigit():
            self.c.parts[-1:], text = [(before[:-1], weight)] if before != " " else [], " " + text
        self.c.parts += [(t, COPY) for t in TOKENS.findall(text)]

    def step(self, label=""):
        """Ends a step and begins the next. Low effort omits the label."""
        self.c.say("." + self.gap + ("" if self.effort == "low" else label))

    def next(self):
        self.c.say("; ")

    def count(self, n, one, many):
        """Writes a quantity such as 1 hour and returns its number."""
        told = self.c.result(n)
        require(told or not n)
        n = told
        self.quote(many if n != 1 else one)
        return n


def held_out(numbers):
    """One set of numbers in twenty is never trained on: only evaluation asks these."""
    h = 12345
    for n in numbers:
        h = (h * 31 + n + 7) * 2654435761 % (1 << 32)
    return (h >> 9) % 20 == 0


def drawn(rng, draw, fresh):
    """Calls draw(rng) until its numbers are held out or not, as fresh requires, and returns the result. draw returns
    its numbers first."""
    while True:
        made = draw(rng)
        if held_out(made[0]) == fresh:
            return made


def number(rng, n):
    """n as people type it."""
    return in_words(rng, n) if 1 < n < 100 and rng.random() < 0.08 else str(n)


def worded(rng, terms, templates, wrapped=0.3):
    """A wording, or a term in one of the general wordings."""
    if terms and rng.random() < wrapped:
        return rng.choice(WRAPS).replace("{x}", rng.choice(terms))
    return rng.choice(templates)


EVENTS = """film movie lesson meeting match concert party flight class show game lecture course talk exam test dance play race ride
walk nap break visit tour dinner lunch journey trip call interview training workshop speech wedding picnic shift opera ballet""".split()
UNSEEN_EVENTS = "rehearsal seminar auction parade ceremony marathon banquet recital tournament festival".split()


def fill(rng, template, fresh, **words):
    """The template with names, things and amounts. {o} is one thing after a, one or the, and many otherwise."""
    for slot in "op":
        many = things(rng, fresh)
        template = re.sub(r"\b(an?|one|the) \{" + slot + r"\}", lambda m: m[1] + " " + single(many), template,
            flags=re.I)
        words[slot] = many
    words |= {"n": person(rng, fresh), "m": person(rng, fresh)}
    words["e"] = rng.choice(UNSEEN_EVENTS) if fresh else coined(rng,
        ("", "er")) if rng.random() < 0.2 else rng.choice(EVENTS)
    for slot, word in words.items():
        template = template.replace("{" + slot + "}", word)
    return re.sub(r"\b([Aa]) (?=[aeiou]\w)", r"\1n ", template)


def single(many):
    if many.endswith("ies") and many != "cookies":
        return many[:-3] + "y"
    return many[:-2] if many.endswith(("xes", "ches", "shes", "toes")) else many.rstrip("s")


def dressed(rng, text, keep):
    """The text as people type it, with the quantities in `keep` unharmed."""
    if text[0].islower() and rng.random() < 0.5:
        text = text[0].upper() + text[1:]
    squeeze = lambda s: re.sub(r"\s+", "", s).lower()
    while True:
        out = dress(rng, text)
        if all(squeeze(k) in squeeze(out) for k in keep):
            return out


def build(rng, task, effort, slip):
    """The Turn for a task; with slip, one place of its work is wrong."""

    def write(chain):
        page = Page(chain, effort)
        chain.say("I " if effort == "low" else "The task is to ")
        page.quote(task.ask)
        if effort != "low":
            chain.say(".\nI go step by step, each on a line of its own. " + task.plan)
        value = task.solve(page)
        page.step()
        chain.say("So " if effort == "low" else "So the answer to the question is ")
        value = task.tell(page, value)
        chain.say(".")
        chain.done()
        if effort != "high":
            return value, True
        chain.say("\n" + task.check)
        chain.slip_at = None
        sound = task.verify(page, value)
        chain.say(", as it should be.\nIt stays " + task.show(value) + "." if sound else ", so something may be wrong.")
        return value, sound

    chain, (value, sound) = work(rng, write, slip)
    r = task.show(value)
    concise = {"low": f"It is {r}.", "medium": f"The steps give {r}.",
        "high": f"The steps give {r}, and the check holds."}[effort]
    detailed = {"low": f"It is {r}.", "medium": f"Step after step leads to {r}.",
                "high": f"Step after step leads to {r}. The way back fits."}[effort]
    return Turn(
        question=task.question, analysis=chain.parts, final=task.final.replace("{r}", r), concise=concise if sound
        else "",
        detailed=detailed if sound else "", posthoc=task.posthoc.replace("{r}", r), direct=not slip,
        complete=chain.known, kind=task.kind,
        result=r, numbers=task.numbers)


def require(holds):
    """Gives up a planted slip after which the work makes no sense."""
    if not holds:
        raise Impossible


def within(value, limit):
    require(value < limit)
    return value
