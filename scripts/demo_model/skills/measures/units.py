"""Lengths, weights, volumes, times and dozens: from one unit to another, and sums of two units."""

from .page import Task, dressed, drawn, fill, number, within, worded

# Larger unit, smaller unit, how many make one, the largest number asked of the larger unit.
PAIRS = (("km", "m", 1000, 99), ("m", "cm", 100, 99), ("cm", "mm", 10, 300), ("m", "mm", 1000, 40),
         ("kg", "g", 1000, 99), ("l", "ml", 1000, 40),
         ("hours", "minutes", 60, 12), ("hours", "minutes", 60, 24), ("minutes", "seconds", 60, 20),
         ("days", "hours", 24, 9), ("weeks", "days", 7, 52),
         ("years", "months", 12, 15), ("dozen", "pieces", 12, 12), ("feet", "inches", 12, 12), ("yards", "feet", 3, 99))
MIXED = tuple(p for p in PAIRS if p[0] != "dozen")

WORDS = {"km": "km|km|km|kilometers|kilometres|kms", "m": "m|m|m|meters|metres",
         "cm": "cm|cm|cm|centimeters|centimetres", "mm": "mm|mm|mm|millimeters|millimetres",
         "kg": "kg|kg|kg|kilograms|kilos", "g": "g|g|g|grams", "l": "l|l|liters|litres|L",
         "ml": "ml|ml|ml|milliliters|millilitres|mL",
         "hours": "hours|hours|hours|h|hrs", "minutes": "minutes|minutes|minutes|min|mins",
         "seconds": "seconds|seconds|s|sec|secs",
         "days": "days", "weeks": "weeks", "years": "years", "months": "months", "dozen": "dozen|dozen|dozens",
         "pieces": "pieces|eggs|eggs|things|units",
         "feet": "feet|feet|ft", "inches": "inches|inches|in", "yards": "yards|yards|yd"}
SINGLE = {"feet": "foot", "inches": "inch", "centimetres": "centimetre"}
FULL = {"hours", "minutes", "seconds", "days", "weeks", "years", "months", "pieces", "yards", "feet", "inches",
        "kilometers", "kilometres", "meters", "metres",
        "centimeters", "centimetres", "millimeters", "millimetres", "kilograms", "kilos", "grams", "liters", "litres",
        "milliliters", "millilitres", "eggs", "things", "units"}

TERMS = """{q} in {u}|{q} in {u}|{q} to {u}|{q} into {u}|{q} as {u}|{q} converted to {u}|{q} written in {u}|{q} expressed in {u}|{q} given in {u}|{q} measured in {u}
the number of {u} in {q}|the {u} in {q}|{q} turned into {u}|{q} changed to {u}""".replace("\n", "|").split("|")

ASKS = """How many {u} are {q}?|How many {u} are in {q}?|How many {u} is {q}?|how many {u} in {q}|how many {u} are there in {q}|How many {u} are {q}?|How many {u} do {q} make?|How many {u} does {q} have?|{q} is how many {u}?|{q} are how many {u}?
{q} = ? {u}|{q} = how many {u}?|Convert {q} to {u}.|Convert {q} into {u}.|convert {q} to {u}|Turn {q} into {u}.|Change {q} to {u}.|Change {q} into {u}|Write {q} in {u}.|Express {q} in {u}.|Give {q} in {u}.|Say {q} in {u}.|Put {q} into {u}.
{q} -> {u}|{q} => {u}|{q} in {u}?|{q} to {u}?|{q} to {u}|{q} in {u}|What is {q} in {u}?|what's {q} in {u}|What are {q} in {u}?|What do {q} make in {u}?|I need {q} in {u}.|I have {q}. How many {u} is that?|There are {q}. How many {u} is it?
My list says {q}. What is that in {u}?|{n} measures {q}. How many {u} is that?|{n} wants to know how many {u} are in {q}.|{n} has {q}. How many {u} are that?|{n} needs {q}. How much is that in {u}?|The recipe asks for {q}. How many {u} is this?
The sign says {q}. What is this in {u}?|If you have {q}, how many {u} do you have?|The answer to {q} in {u}?|Please convert: {q} in {u}|conversion of {q} to {u}|{u} in {q}?|The box says {q}; how many {u}?|Tell me how many {u} make {q}.
It is {q}, and I need it in {u}.|Can you change {q} to {u}?|My notes say {q} but I want {u}.|Do you know how many {u} there are in {q}?|{q}, in {u} please|Rewrite {q} using {u}.|How much is {q} in {u}?|How much are {q} in {u}?""".replace("\n", "|").split("|")

ADD_TERMS = """{a} plus {b}|{a} + {b}|the sum of {a} and {b}|the total of {a} and {b}|{a} and {b} together|{b} added to {a}|{a} and another {b}|{a} and {b} more""".replace("\n", "|").split("|")
ADD = """Add {a} and {b}.|Add {b} to {a}.|How much is {a} plus {b}?|How much are {a} and {b} together?|What is {a} plus {b}?|What do {a} and {b} make?|{n} has {a} and gets {b} more. How much is that?|First it is {a}, then {b} more. What is the total?
One {o} is {a}, the other is {b}. What is the total?|The first part is {a}, the second is {b}. How much in all?|{n} measures {a} and then {b}. What is it together?|Put {a} and {b} together.|total of {a} and {b}?|Sum up {a} and {b}.
We had {a} and now {b} come on top. How much is it?|{n} used {a} yesterday and {b} today. How much was used?|If I join {a} with {b}, how much is it?|Work out {a} plus {b} for me.|There were {a}, and {b} more were added. What is the sum?""".replace("\n", "|").split("|")

SUB_TERMS = """{a} minus {b}|{a} - {b}|{a} less {b}|{b} taken from {a}|{a} take away {b}|the difference between {a} and {b}|{b} less than {a}""".replace("\n", "|").split("|")
SUB = """Take {b} from {a}.|Subtract {b} from {a}.|How much is {a} minus {b}?|What is {a} minus {b}?|{n} has {a} and uses {b}. How much is left?|Of {a}, {b} are gone. How much is left?|From {a}, {b} is cut off. What remains?
The way is {a} and {n} has done {b}. How much is left?|How much more is {a} than {b}?|What is left of {a} without {b}?|{n} had {a} and lost {b}. How much remains?|Take away {b} from {a}, what is left?|It was {a} and is now {b} less. How much is it?""".replace("\n", "|").split("|")


def one(unit):
    """A unit after the number one."""
    return SINGLE.get(unit, unit[:-1] if unit in FULL else unit)


def amount(n, unit):
    return f"{n} {one(unit) if n == 1 else unit}"


def spell(parts):
    """An amount in several units, largest first and without those of which there are none."""
    return " ".join(amount(n, u) for n, u in parts if n) or amount(*parts[-1])


def both(parts):
    """An amount with each of its units, also those of which there are none."""
    return " ".join(amount(n, u) for n, u in parts)


def tell(page, parts):
    """Writes what spell makes of parts and returns the parts that stand there."""
    out, said = [], False
    for i, (n, u) in enumerate(parts):
        if n or (i + 1 == len(parts) and not said):
            if said:
                page.c.say(" ")
            n, said = page.count(n, " " + one(u), " " + u), True
        out.append((n, u))
    return out


def word(rng, unit):
    return rng.choice(WORDS[unit].split("|"))


def typed(rng, n, unit):
    if len(unit) <= 3 and unit not in ("ft", "in") and rng.random() < 0.35:
        return f"{n}{unit}"
    if n == 1 and unit in FULL and rng.random() < 0.4:
        return ("an " if unit in ("hours", "inches", "eggs") else "a ") + one(unit)
    return f"{number(rng, n)} {one(unit) if n == 1 else unit}"


def typed_sum(rng, parts):
    return rng.choice((" ", " ", " and ")).join(typed(rng, n, word(rng, u)) for n, u in parts if n)


def to_small(page, n, factor):
    """Writes n*factor and returns the product that stands there."""
    c = page.c
    if factor in (10, 100, 1000):
        c.say(f"{n}*{factor}=")
        return c.result(n * factor)
    if factor == 60:
        n = c.times(n, 6)
        c.say(", with a zero ")
        return c.result(n * 10)
    return c.times(factor, n) if n < 10 < factor else c.mul(n, factor)


def from_small(page, n, factor):
    """Writes n/factor and returns the quotient and the remainder that stand there."""
    c = page.c
    if factor in (10, 100, 1000):
        c.say(f"{n}/{factor}=")
        q = c.result(n // factor)
        c.say(" rest ")
        return q, c.result(n % factor)
    if factor == 60:
        c.say(f"{n}/60, without the last digits ")
        q, rest = c.div(n // 10, 6)
        c.say(", with ")
        page.quote(str(n % 10))
        c.say(f" {q} rest ")
        return q, c.result(rest * 10 + n % 10)
    if factor < 10:
        return c.div(n, factor)
    q, below = 0, 0
    while True:
        c.say(f"{q + 1}*{factor}=")
        reached = c.value((q + 1) * factor)
        c.hard("<" if reached < n else "=" if reached == n else ">")
        c.say(str(n))
        if reached > n:
            break
        q, below = q + 1, reached
        if reached == n:
            break
        c.say(", ")
    c.say(", so ")
    q = c.result(q)
    page.next()
    return q, c.sub(n, below)


def rule(big, small, factor):
    return f"1 {one(big)} is {factor} {small}"


def ruled(page, big, small, factor):
    page.step("")
    page.quote(rule(big, small, factor))
    page.step("Now the sum. ")


def smaller(rng, fresh):
    """From a larger unit, or from both, to the smaller one."""

    def draw(r):
        pair = r.choice(PAIRS)
        more = pair[0] != "dozen" and r.random() < 0.25
        return [r.randrange(1, pair[3] + 1), rest_of(r, pair[2]) if more else 0, pair[2]], pair

    (n, rest, _), (big, small, factor, _) = drawn(rng, draw, fresh)
    parts = [(n, big), (rest, small)]

    def solve(page):
        ruled(page, big, small, factor)
        total = to_small(page, n, factor)
        if rest:
            page.next()
            total = page.c.add(total, rest)
        return [(total, small)]

    def verify(page, value):
        return from_small(page, value[0][0], factor) == (n, rest)

    return conversion(rng, fresh, parts, small,
                      "I say how many of the smaller unit make one of the larger.\nThen I multiply by this number"
                      + (" and add the rest" if rest else ""),
                      "To check the result, I divide by the same number.\nIf nothing went wrong, I come back to where I started. ",
                      solve, verify, [n, rest, factor])


def larger(rng, fresh):
    """From a smaller unit to the larger one, with what is left over."""

    def draw(r):
        pair = r.choice(PAIRS)
        top = min(pair[3], 7) if pair[2] in (12, 24) else pair[3]
        return [r.randrange(1, top + 1), 0 if r.random() < 0.4 else rest_of(r, pair[2]), pair[2]], pair

    (n, rest, _), (big, small, factor, _) = drawn(rng, draw, fresh)
    total = n * factor + rest

    def solve(page):
        ruled(page, big, small, factor)
        q, left = from_small(page, total, factor)
        return [(q, big), (left, small)]

    def verify(page, value):
        (q, _), (left, _) = value
        got = to_small(page, q, factor)
        if left:
            page.next()
            got = page.c.add(got, left)
        return got == total

    target = word(rng, big)
    if rest and rng.random() < 0.5:
        target = f"{target} and {word(rng, small)}"
    return conversion(rng, fresh, [(total, small)], target,
                      "I say how many of the smaller unit make one of the larger.\nThen I divide by this number",
                      "To check the result, I multiply by the same number.\nIf nothing went wrong, I come back to where I started. ", solve, verify, [total, factor], big)


def conversion(rng, fresh, parts, target, plan, check, solve, verify, numbers, read=None):
    q = typed_sum(rng, parts)
    u = target if read else word(rng, target)
    text = worded(rng, TERMS, ASKS)
    question = fill(rng, text, fresh, q=q, u=u)
    start = spell(parts)
    return Task(dressed(rng, question, (q, u)), "units", f"turn {start} into {read or target}", plan, check, solve,
                tell, spell, verify,
                start + " = {r}.", f"{start} = {{r}}.", numbers)


def rest_of(rng, factor):
    return rng.choice((rng.randrange(1, factor), max(1, rng.randrange(1, factor) // 5 * 5)))


def mixed(rng, fresh, minus):
    """The sum or the difference of two amounts in the same two units."""

    def draw(r):
        while True:
            pair = r.choice(MIXED)
            factor, top = pair[2], min(pair[3], 20)
            a, b = r.randrange(0, top), rest_of(r, factor)
            x, y = (0 if r.random() < 0.5 else r.randrange(0, top)), r.choice((0, rest_of(r, factor),
                rest_of(r, factor)))
            if a and (x or y) and (not minus or a * factor + b > x * factor + y):
                return [a, b, x, y, factor], pair

    (a, b, x, y, _), (big, small, factor, _) = drawn(rng, draw, fresh)
    p, q = [(a, big), (b, small)], [(x, big), (y, small)]

    def plus(page, a, b, x, y):
        c = page.c
        b = c.add(b, y)
        page.next()
        carry = not c.less(b, factor)
        if carry:
            page.next()
            b = within(c.sub(b, factor), factor)
        page.step("Then the larger unit. ")
        if carry:
            x = c.add(x, 1)
            page.next()
        return c.add(a, x), b

    def take(page, a, b, x, y):
        c = page.c
        borrow = c.less(b, y)
        page.next()
        if borrow:
            b = c.add(b, factor)
            page.next()
        b = within(c.sub(b, y), factor)
        page.step("Then the larger unit. ")
        if borrow:
            x = c.add(x, 1)
            page.next()
        return c.sub(a, x), b

    def solve(page):
        ruled(page, big, small, factor)
        m, n = (take if minus else plus)(page, a, b, x, y)
        return [(m, big), (n, small)]

    def verify(page, value):
        (m, _), (n, _) = value
        return (plus if minus else take)(page, m, n, x, y) == (a, b)

    u, v = typed_sum(rng, p), typed_sum(rng, q)
    terms, templates = (SUB_TERMS, SUB) if minus else (ADD_TERMS, ADD)
    text = worded(rng, terms, templates)
    ask = f"take {both(q)} from {both(p)}" if minus else f"add {both(p)} and {both(q)}"
    final = "The difference is {r}." if minus else "The total is {r}."
    return Task(dressed(rng, fill(rng, text, fresh, a=u, b=v), (u, v)), "units", ask,
                "I begin with the smaller unit and then go on to the larger.\n"
                + ("Where there are too few of the smaller, I take one of the larger" if minus
                else "When enough of the smaller are together, they make one of the larger"),
                "To check the result, I " + ("add" if minus else "take away") + " the second amount again. ", solve,
                tell, spell, verify, final, final, [a, b, x, y])


def task(rng, fresh):
    roll = rng.random()
    if roll < 0.4:
        return smaller(rng, fresh)
    return larger(rng, fresh) if roll < 0.75 else mixed(rng, fresh, roll > 0.92)
