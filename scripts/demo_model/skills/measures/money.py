"""Amounts of money, worked out in whole cents."""

from .page import Task, dressed, drawn, fill, number, worded

ADD_TERMS = """{a} plus {b}|{a} + {b}|{a}+{b}|the sum of {a} and {b}|the total of {a} and {b}|{a} and {b} together|{a} added to {b}|{a} and {b}|{a} and another {b}""".replace("\n", "|").split("|")

ADD = """Add {a} and {b}.|How much is {a} plus {b}?|How much are {a} and {b} together?|A {o} costs {a} and a {p} costs {b}. How much is that together?|One {o} is {a}, one {p} is {b}. What is the total?
{n} buys a {o} for {a} and a {p} for {b}. How much does {n} pay?|{n} pays {a} for a {o} and {b} for a {p}. How much in total?|{n} spends {a} on {o} and {b} on {p}. How much is spent in all?
{n} has {a} and gets {b} more. How much money does {n} have?|{n} has {a}. {n} earns {b}. How much money is it now?|{n} saved {a} and then {b}. How much money is saved?|I have {a} and find {b}. How much do I have?
I buy a {o} for {a} and a {p} for {b}. What do I pay?|I spent {a} and {b}. How much did I spend?|The {o} cost {a}, the {p} {b}. What do they cost together?|A meal is {a} and the drink is {b}. What is the bill?
The ticket is {a} and the fee is {b}. What is the full price?|The bill is {a}. {n} gives a tip of {b}. What is paid in total?|What do {a} and {b} make?|total of {a} and {b}?|What is the total price of {a} and {b}?
If a {o} costs {a} and a {p} costs {b}, what do both cost?|The price of {a} goes up by {b}. What is the new price?|What is the price if {b} is added to {a}?|Lunch costs {a} and dinner {b}. How much is it in total?
Total: {o} {a}, {p} {b}|sum up {a} and {b}|my bills are {a} and {b}, what is the total""".replace("\n", "|").split("|")

ADD3 = """{a} plus {b} plus {c}|How much is {a} + {b} + {c}?|{a} + {b} + {c}|Add {a}, {b} and {c}.|What is the total of {a}, {b} and {c}?|{n} buys things for {a}, {b} and {c}. How much does {n} pay?
A {o} is {a}, a {p} is {b} and a bag is {c}. What is the total?|I paid {a}, {b} and {c}. How much is that in all?|What do {a}, {b} and {c} make together?|The bill has {a}, {b} and {c}. What is the sum?""".replace("\n", "|").split("|")

CHANGE = """{n} pays with {a} for a {o} that costs {b}. How much change does {n} get?|{n} buys a {o} for {b} and pays with {a}. How much is the change?|I pay {b} with {a}. What is my change?|A {o} costs {b}. I pay with {a}. How much change do I get?
I give {a} for something that costs {b}. What do I get back?|What is the change from {a} for {b}?|What is the change from {a} if I spend {b}?|change from {a} for a {b} {o}?|The bill is {b}. {n} gives {a}. How much change is it?
{n} hands over {a} for {o} at {b}. How much comes back?|How much change do I get from {a} when I pay {b}?|The {o} cost {b} and {n} pays {a}. What is the change?|If I buy a {o} for {b} and give {a}, how much do I get back?
Paying {b} with {a}, how much change is there?|Total {b}, paid {a}, change?|A customer pays {a} for goods of {b}. Work out the change.|How much change from {a} after buying a {o} for {b}?|cost {b}, cash {a}, change?""".replace("\n", "|").split("|")

REST_TERMS = """{a} minus {b}|{a} - {b}|{a}-{b}|{a} less {b}|{a} take away {b}|the difference between {a} and {b}|{b} less than {a}|{b} taken from {a}|{b} off {a}""".replace("\n", "|").split("|")

REST = """{n} has {a} and spends {b}. How much is left?|{n} had {a} and spent {b} on {o}. How much money is left?|{n} has {a} and buys a {o} for {b}. How much money does {n} still have?|I have {a} and pay {b}. What do I have left?
I had {a} and lost {b}. How much is left?|Take {b} from {a}.|Subtract {b} from {a}.|How much is {a} minus {b}?|A {o} for {a} is now {b} cheaper. What does it cost?|The {o} was {a} and the price drops by {b}. What is the price now?
One {o} costs {a} and one {p} costs {b}. How much more is the {o}?|How much more is {a} than {b}?|{n} has {a}, {m} has {b}. How much more does {n} have?|{n} wants a {o} for {a} and has {b}. How much is missing?
How much is missing from {b} to {a}?|{n} needs {a} and has saved {b}. How much more is needed?|What is left of {a} after {b} is spent?|From {a}, {b} is taken. What remains?|The difference between {a} and {b}?|{n} owes {a} and pays back {b}. What is still owed?
There is {a} in the box and {b} is taken out. How much is in it?|{a} with a discount of {b}?|{n} gives {b} of {a} away. How much does {n} keep?""".replace("\n", "|").split("|")

TIMES_TERMS = """{k} times {a}|{k} * {a}|{a} * {k}|{a} times {k}|{k} x {a}|{k} {o} at {a} each|the price of {k} {o} at {a} each|the cost of {k} {o} for {a} each|{k} {o} for {a} each""".replace("\n", "|").split("|")

TIMES = """{k} {o} at {a} each|{k} {o} at {a} each, what is the total?|What do {k} {o} at {a} each cost?|What do {k} {o} cost at {a} each?|How much are {k} {o} at {a} each?|One {o} costs {a}. What do {k} cost?|If one {o} costs {a}, how much are {k}?
A ticket is {a}. How much are {k} tickets?|{n} buys {k} {o} at {a} each. How much does {n} pay?|{n} buys {k} {o} for {a} each. What is the total?|{n} sells {k} {o} for {a} each. How much money is that?|I buy {k} {o}. Each costs {a}. What do I pay?
{n} earns {a} an hour and works {k} hours. How much is that?|{n} saves {a} a week. How much is it after {k} weeks?|{k} people pay {a} each. How much is it together?|How much do I pay for {k} {o} if each is {a}?|{o} cost {a} each. {n} takes {k}. What is the price?
The price is {a} per piece. How much are {k} pieces?|One kilo costs {a}. What do {k} kilos cost?|Multiply {a} by {k}.|{n} spends {a} every day. How much is that in {k} days?|total for {k} {o} at {a} apiece?|Buying {k} {o} at {a} each, what is the bill?
Each of {k} {o} costs {a}. What do they cost together?|price {a}, quantity {k}, total?|What is {k} times {a}?|A {o} is {a}, how much for {k} of them?""".replace("\n", "|").split("|")

DEAL = """{n} buys {k} {o} at {a} each and pays with {b}. How much change does {n} get?|I buy {k} {o} for {a} each and pay with {b}. What is my change?|{k} {o} at {a} each, paid with {b}. How much change?|One {o} costs {a}. {n} buys {k} and pays with {b}. What is the change?
What is the change from {b} for {k} {o} at {a} each?|{o} cost {a} each. I take {k} and give {b}. How much do I get back?|How much change do I get from {b} if I buy {k} {o} at {a} each?|{n} pays {b} for {k} {o} that cost {a} each. How much comes back?""".replace("\n", "|").split("|")

SIGNS = {"$": ("dollar", "cents"), "€": ("euro", "cents"), "£": ("pound", "pence")}


def spell(cents, sign):
    return f"{sign}{cents // 100}.{cents % 100:02d}"


def typed(rng, cents, sign):
    """An amount as people type it."""
    word, small = SIGNS[sign]
    if cents < 100 and rng.random() < 0.6:
        return f"{cents} {small}"
    whole = cents % 100 == 0 and rng.random() < 0.8
    amount = f"{cents // 100}" if whole else f"{cents // 100}.{cents % 100:02d}"
    roll = rng.random()
    if roll < 0.65:
        return sign + amount
    if roll < 0.9:
        return f"{number(rng, cents // 100) if whole else amount} {word}{'s' if cents != 100 else ''}"
    if roll < 0.95 and not whole and cents > 100:
        return f"{cents // 100} {word}{'s' if cents >= 200 else ''} and {cents % 100} {small}" if cents % 100 else f"{cents // 100} {word}s"
    return f"{amount} {sign}" if sign == "€" else sign + amount


def amount(rng, low=1, high=9999):
    """Cents. Prices mostly end in 0, 5 or 99 and are rarely large."""
    while True:
        top = rng.choice((500, 1000, 2000, 5000, 10000))
        n = rng.randrange(top)
        n = rng.choice((n, n // 5 * 5, n // 5 * 5, n // 10 * 10, n // 100 * 100, n // 100 * 100 + 99))
        if low <= n <= high:
            return n


def note(rng, least):
    """What somebody may pay with, in cents."""
    return rng.choice([n for n in (500, 1000, 2000, 5000, 10000) if n >= least][:2])


def cents(page, sign, *amounts):
    """Writes amounts in cents and returns the written ones."""
    page.step()
    out = []
    for i, n in enumerate(amounts):
        page.c.say(", " if i else "")
        page.quote(spell(n, sign) + " is ")
        out.append(page.c.result(n))
    page.quote(" " + SIGNS[sign][1])
    page.step("Now the sum. ")
    return out


def tell(page, value, sign):
    """Writes cents as an amount and returns the written amount."""
    c = page.c
    page.quote(sign)
    whole = c.result(value // 100)
    page.quote(".")
    return whole * 100 + c.digit(value // 10 % 10) * 10 + c.digit(value % 10)


def addition(count):
    def draw(r):
        while True:
            parts = [amount(r, 5) for _ in range(count)]
            if sum(parts) <= 9999:
                return parts, None

    def solve(page, sign, parts):
        total, *others = cents(page, sign, *parts)
        for i, n in enumerate(others):
            if i:
                page.next()
            total = page.c.add(total, n)
        return total

    def verify(page, sign, parts, value):
        for i, n in enumerate(parts[:0:-1]):
            if i:
                page.next()
            value = page.c.sub(value, n)
        return value == parts[0]

    return draw, solve, verify


def subtraction():
    def draw(r, paid=False):
        b = amount(r, 5, 9900)
        a = note(r, b + 1) if paid else amount(r, b + 1, 10000)
        return [a, b], None

    def solve(page, sign, parts):
        return page.c.sub(*cents(page, sign, *parts))

    def verify(page, sign, parts, value):
        return page.c.add(value, parts[1]) == parts[0]

    return draw, solve, verify


def task(rng, fresh):
    roll = rng.random()
    sign = rng.choice(("$", "$", "$", "€", "€", "£"))
    small = SIGNS[sign][1]
    show = lambda n: spell(n, sign)
    if roll < 0.3:
        count = 3 if rng.random() < 0.25 else 2
        draw, solve, verify = addition(count)
        parts, _ = drawn(rng, draw, fresh)
        text = worded(rng, (), ADD3) if count == 3 else worded(rng, ADD_TERMS, ADD)
        ask = "add " + ", ".join(map(show, parts[:-1])) + " and " + show(parts[-1])
        verb, final = "add", "The total is {r}."
        slots = dict(zip("abc", parts))
    elif roll < 0.65:
        draw, solve, verify = subtraction()
        paid = rng.random() < 0.5
        parts, _ = drawn(rng, lambda r: draw(r, paid), fresh)
        text = worded(rng, (), CHANGE) if paid else worded(rng, REST_TERMS, REST)
        ask = f"take {show(parts[1])} from {show(parts[0])}"
        verb = "subtract"
        final = "The change is {r}." if paid else "The difference is {r}."
        slots = dict(zip("ab", parts))
    else:
        deal = rng.random() < 0.3

        def draw(r):
            while True:
                k, a = r.randrange(2, 10), amount(r, 5)
                if k * a <= 9900:
                    return [a, k] + ([note(r, k * a + 1)] if deal else []), None

        parts, _ = drawn(rng, draw, fresh)
        a, k = parts[:2]
        text = worded(rng, (), DEAL) if deal else worded(rng, TIMES_TERMS, TIMES)
        ask = f"multiply {show(a)} by {k}" + (f" and take it from {show(parts[2])}" if deal else "")
        verb = "multiply"
        final = "The change is {r}." if deal else "The total is {r}."
        slots = {"a": a} | ({"b": parts[2]} if deal else {})

        def solve(page, sign, parts):
            a, *paid = cents(page, sign, parts[0], *parts[2:])
            total = page.c.times(a, k)
            if paid:
                page.next()
                total = page.c.sub(paid[0], total)
            return total

        def verify(page, sign, parts, value):
            if deal:
                value = page.c.sub(parts[2], value)
                page.next()
            return page.c.div(value, k) == (a, 0)

    # Whole amounts in words alone would be a word problem, whose answer is a number.
    words = {}
    while not any(sign in w or "." in w or small in w for w in words.values()):
        words = {s: typed(rng, n, sign) for s, n in slots.items()}
    if "{k}" in text:
        words["k"] = number(rng, k)
    question = fill(rng, text, fresh, **words)
    plan = f"I write the amounts in {small}, so that there are only whole numbers.\nThen I {verb} these, and in the end I write the result as an amount"
    check = "To check the result, I go back by the inverse operation.\nIf nothing went wrong, I come to the number that I started from. "
    return Task(dressed(rng, question, words.values()), "money", ask, plan, check,
                lambda page: solve(page, sign, parts), lambda page, n: tell(page, n, sign), show,
                lambda page, n: verify(page, sign, parts, n), final, final, list(parts))
