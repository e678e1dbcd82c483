"""Word problems of one and two steps: a tale with its blanks filled in, and its plan worked out step by step."""

import re

from . import Turn, unseen
from .arithmetic import lead_back
from .columns import Impossible, work
from .phrasing import dress, in_words
from .tales import CONTAINERS, LEADS, PLACES, one_step, two_steps
from .words import NAMES, OBJECTS

SUBJECTS = {"i": ("I", "me", "my"), "we": ("we", "us", "our"), "they": ("they", "them", "their"),
    "he": ("he", "him", "his"), "she": ("she", "her", "her")}
PEOPLE = [n[0].lower() + n[1:] if " " in n and "." not in n else n for n in NAMES if n not in ("She", "He")]
UNSEEN = {w.lower() for w in unseen.NAMES + unseen.OBJECTS}


ONSETS = "b d f g h j k l m n p r s t v w z br ch dr fl gr pl sh st th tr".split()


def coined(rng, ends):
    """An unknown word, so that the model accepts any word."""
    while True:
        w = "".join(rng.choice(ONSETS) + rng.choice("aeiou") for _ in range(rng.choice((1, 2, 2)))) + rng.choice(("",
            "", "n", "r", "l", "m", "ck", "rt")) + rng.choice(ends)
        if len(w) > 2 and w not in UNSEEN:
            return w


def person(rng, fresh):
    if fresh:
        return rng.choice(unseen.NAMES)
    return coined(rng, ("", "a", "o", "ie", "el")).capitalize() if rng.random() < 0.5 else rng.choice(PEOPLE)


def things(rng, fresh):
    if fresh:
        return rng.choice(unseen.OBJECTS)
    return coined(rng, ("s", "s", "s", "es", "ies", "ers")) if rng.random() < 0.5 else rng.choice(OBJECTS)


def two(draw, rng, fresh):
    first = second = draw(rng, fresh)
    while second == first:
        second = draw(rng, fresh)
    return first, second


def times_as(rng, n):
    count = rng.choice((str(n), in_words(rng, n)))
    return rng.choice(("twice", "twice", "two times")) if n == 2 else count + " times"


def tell(rng, text, values, fresh):
    """The story with its blanks filled in, and its numbers in order."""
    order = [k for k in re.findall(r"\{([abct])\}", text)]
    order = [k for i, k in enumerate(order) if k not in order[:i]]
    (n, m), (o, p) = two(person, rng, fresh), two(things, rng, fresh)
    who = rng.choice(("he", "she"))
    if "[" in text and rng.random() < 0.2:
        who = rng.choice(("i", "i", "we", "they"))
    nominative, objective, possessive = SUBJECTS[who]
    third = who in ("he", "she")
    if "{he}" in text and "{n}" not in text[:text.index("{he}")]:
        text = text.replace("{he}", "{n}", 1)
    if not third:
        n = nominative
        text = re.sub(r"\b(than|to|bring|for|as) \{n\}", r"\1 {him}", text)
    if text.startswith(("{n}", "There", "A ")) and rng.random() < 0.1:
        text = rng.choice(LEADS) + text[0].lower() + text[1:]
    text = re.sub(r"\[([^|\]]*)\|([^\]]*)\]", lambda v: v[1] if third else re.sub("^are", "am", v[2]) if who == "i"
        else v[2], text)
    one, many = rng.choice(CONTAINERS).split()
    if not fresh and rng.random() < 0.15:
        one = coined(rng, ("",))
        many = one + "s"
    spoken = rng.random()
    number = lambda k: in_words(rng, k) if spoken < 0.07 or spoken < 0.15 and k < 13 else str(k)
    fill = {"{n's}": n + "'s" if third else possessive, "{m}": m, "{o}": o, "{p}": p, "{g}": one, "{G}": many,
            "{w}": rng.choice(PLACES),
            "{him}": objective, "{his}": possessive, **{"{" + k + "}": times_as(rng, values[k]) if k == "t"
            else number(values[k]) for k in order}}
    again = n if third and rng.random() < 0.3 else nominative
    text = text.replace("{n}", n).replace("{he}", again)
    for slot, word in fill.items():
        text = text.replace(slot, word)
    text = re.sub(r"(?<=[a-z,;]) We\b", " we", text)
    text = re.sub(r"(^|[.?!] )([a-z])", lambda v: v[1] + v[2].upper(), text)
    text = re.sub(r"\b(Mr|Mrs)\. ([a-z])", lambda v: v[1] + ". " + v[2].upper(), text)
    return dress(rng, text), [values[k] for k in order]


def held_out(numbers):
    """One set of numbers in twenty is never trained on: only evaluation asks these."""
    h = 12345
    for n in numbers:
        h = (h * 1009 + n * 9176 + 17) % (1 << 32)
    return (h * 2654435761 % (1 << 32) >> 9) % 20 == 0


def exact(sign, x, y):
    """The result, or None if the numbers do not suit the step."""
    if sign in "+-":
        return None if max(x, y) > 999 or sign == "-" and x <= y else x + y if sign == "+" else x - y
    if sign == "*":
        return x * y if max(x, y) < 100 else None
    if not (1 < y < 10 and y <= x < 1000) or sign == "/" and x % y:
        return None
    return x // y if sign == "/" else x % y


def sized(rng, least, most):
    return rng.randrange(least, min(most, rng.choice((9, 20, 99, 99, 999)))
        + 1) if least < 10 else rng.randrange(least, rng.choice((40, 99, 99, 999)) + 1)


def numbers_for(rng, plan, lowest=2):
    """Numbers that suit the plan, by letter."""
    while True:
        v, least, most = {}, {}, {}
        for i, (sign, x, y) in enumerate(plan):
            wide = rng.random() < (0.4 if len(plan) == 1 else 0.12)
            for k, second in ((x, False), (y, True)):
                if sign == "*":
                    most[k] = 99 if wide or not second and k != "r" and y != "r" else 9
                elif sign in "/%" and second:
                    most[k] = 9
                elif sign in "/%" and not i:
                    least[k] = 10
            if i and sign == "*":
                most = {**{k: 60 for k in plan[0][1:]}, **most}
            elif i and sign in "/%" and y == "r":
                most = {**most, **{k: 7 for k in plan[0][1:]}}
        for k in sorted({k for s in plan for k in s[1:]} - {"r"}):
            v[k] = rng.randrange(2, 6) if k == "t" else sized(rng, least.get(k, lowest), most.get(k, 999))
        if plan[-1] == ("-", "c", "r") and rng.random() < 0.4:
            r = exact(plan[0][0], *(v[k] for k in plan[0][1:]))
            v["c"] = next((c for c in (10, 20, 50, 100, 200, 500, 999) if r and c > r), 999)
        r = None
        for sign, x, y in plan:
            r = exact(sign, *(r if k == "r" else v[k] for k in (x, y)))
            if r is None:
                break
        if r is not None and r < 10000:
            return v


KINDS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "%": "divide"}
VERBS = {"+": " add", "-": " take", "*": " multiply", "/": " divide", "%": " divide"}
BETWEEN = {"+": " and", "-": " from", "*": " by", "/": " by", "%": " by"}


def order(c, sign, x, y):
    """Writes what is done with two numbers; either may be the word "that"."""
    c.hard(VERBS[sign])
    first, second = (y, x) if sign == "-" or sign == "+" and x == "that" else (x, y)
    between = " to" if sign == "+" and second == "that" else BETWEEN[sign]
    for before, value in (("", first), (between, second)):
        c.say(before + (" that" if value == "that" else " "))
        if value != "that":
            c.read(value)
    if sign == "%":
        c.say(" for the rest")


def columns(c, sign, x, y):
    """Writes the columns of one step and returns the written result with the remainder of a division."""
    if sign == "+":
        return c.add(x, y), 0
    if sign == "-":
        return c.sub(x, y), 0
    if sign == "*":
        if max(x, y) > 99:
            raise Impossible
        return c.mul(*sorted((x, y), key=lambda n: len(str(n)), reverse=True)), 0
    if not 0 < y < 10:
        raise Impossible
    return c.div(x, y)


def back(c, sign, x, y, told, rest):
    """Checks a step by another method. Returns whether the results agree."""
    if sign == "*" and (min(x, y) > 9 or min(x, y) == 0):
        fits = c.times(x % 10, y % 10) % 10 == told % 10
        c.say(f"; {told} ends in {told % 10}")
    else:
        fits = lead_back(c, KINDS[sign], x, y, (told, rest) if sign in "/%" else told)
    c.say(", and that")
    c.hard(" fits" if fits else " fails")
    c.say(".")
    return fits


def write(c, plan, values, numbers, effort, subject):
    """Writes the analysis. Returns the steps as (sign, x, y, result, rest), the answer, and whether the check found
    no error."""
    if effort == "low":
        c.say("I read ")
    else:
        c.say("The numbers in the")
        c.hard(f" {subject}")
        c.say(" are ")
    for i, n in enumerate(numbers):
        c.say(", " if i else "")
        c.read(n)
    c.say("." if effort == "low" else ".\n")
    if effort != "low":
        c.say("I look at what is asked, and at the steps that lead to it.\n")
        c.say("First I" if len(plan) > 1 else "So I")
        order(c, plan[0][0], *(values[k] for k in plan[0][1:]))
        if len(plan) > 1:
            sign, x, y = plan[1]
            c.say(", then I")
            order(c, sign, *("that" if k == "r" else values[k] for k in (x, y)))
        c.say("." if effort == "medium" else f", and when the answer is there I go back, to see whether it fits the {subject}.")
    steps, r, rest = [], None, 0
    for i, (sign, *letters) in enumerate(plan):
        x, y = (r if k == "r" else values[k] for k in letters)
        c.say("" if effort == "low" else "\n")
        if effort == "low" or len(plan) > 1:
            if i:
                c.say(" Then" if effort == "low" else "Then")
            c.say(" I" if i or effort == "low" else "I")
            order(c, sign, x, y)
            c.say(". ")
        r, rest = columns(c, sign, x, y)
        steps.append((sign, x, y, r, rest))
        c.say(".")
    answer = rest if plan[-1][0] == "%" else r
    if effort != "low":
        c.say("\nThe answer is ")
        c.read(answer)
        c.say(".")
    c.done()
    sound = True
    if effort == "high":
        # The check is computed correctly, whatever was planted before it.
        places, c.slip_at = c.places, None
        for step in steps[::-1]:
            c.say("\nBack: ")
            sound = back(c, *step) and sound
        c.say(f"\nIt stays {answer}." if sound else "\nIt may be wrong.")
        c.places = places
    return steps, answer, sound


def equation(sign, x, y, r, rest):
    return f"{x} {'/' if sign == '%' else sign} {y} = {r}" + (f" remainder {rest}." if rest else ".")


DOING = {"+": "adding {0} and {1}", "-": "taking {1} from {0}", "*": "multiplying {0} by {1}",
    "/": "dividing {0} by {1}", "%": "dividing {0} by {1}"}


def told_in_words(steps):
    """The steps in one sentence."""
    said = []
    for i, (sign, x, y, r, rest) in enumerate(steps):
        said.append(DOING[sign].format(x, y) + (f" leaves {rest}" if sign == "%" else f" gives {r}"))
    text = ", and ".join(said) + "."
    return text[0].upper() + text[1:]


def solve(rng, plan, tell, effort, slip, fresh, subject="story"):
    """The Turn for a plan. tell(values) returns the question about them and its numbers in order. subject is its
    name."""
    while True:
        values = numbers_for(rng, plan, 2 if subject == "story" else 1)
        question, numbers = tell(values)
        if held_out(numbers) == fresh:
            break
    c, (steps, answer, sound) = work(rng, lambda c: write(c, plan, values, numbers, effort, subject), slip=slip)
    words = told_in_words(steps)
    rest = plan[-1][0] == "%"
    concise = f"The rest is {answer}." if rest else f"It makes {answer}."
    detailed = concise if rest else f"The answer is {answer}."
    if effort == "medium":
        concise, detailed = f"The {subject} comes to {answer}.", words
    elif effort == "high":
        concise, detailed = f"The {subject} comes to {answer}, which was checked.", words + " Going back fits."
    return Turn(question=question, analysis=c.parts, final=" ".join(equation(*s) for s in steps)
                + f" The answer is {answer}.",
                concise=concise if sound else "", detailed=detailed if sound else "", posthoc=words,
                direct=all(w for _, w in c.parts), complete=c.known,
                kind=f"story{len(plan)}" if subject == "story" else "chain", result=answer, numbers=numbers)


def turn(rng, effort, slips=True, fresh=False):
    text, plan = one_step(rng) if rng.random() < 0.45 else two_steps(rng)
    return solve(rng, plan, lambda values: tell(rng, text, values, fresh), effort, slips and rng.random() < 0.2, fresh)
