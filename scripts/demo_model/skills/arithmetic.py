"""Addition and subtraction of two whole numbers of up to three digits, worked out column by column."""

from . import Turn
from .phrasing import add_question, subtract_question

LABELS = ("Ones", "Tens", "Hundreds", "Thousands")

# The few tokens that take arithmetic, and the operands' digits, weigh more in the loss than the words around them.
HARD = 5.0
COPY = 3.0


def held_out(a, b):
    """One pair in twenty is never trained on: evaluation asks these only."""
    return ((a * 1009 + b * 9176 + 12345) * 2654435761 >> 9) % 20 == 0


def operand(rng):
    if rng.random() < 0.5:
        return rng.randrange(1000)
    digits = rng.choice((1, 2, 2, 3, 3))
    return rng.randrange(10 ** (digits - 1) if digits > 1 else 0, 10 ** digits)


def pair(rng, trained=True):
    # Newcomers try 1+1 first, so small numbers come far more often than chance would have them.
    small = rng.random() < 0.12
    while True:
        a, b = (rng.randrange(21), rng.randrange(21)) if small else (operand(rng), operand(rng))
        if held_out(a, b) != trained:
            return a, b


def digits(n, width):
    return [n // 10 ** i % 10 for i in range(width)]


class Chain:
    """Collects analysis text; `slip` may replace one digit, which is then not learned but followed."""

    def __init__(self, rng, slip_at=None):
        self.rng, self.slip_at, self.column, self.parts = rng, slip_at, 0, []

    def say(self, text):
        if text:
            self.parts.append((text, 1.0))

    def digit(self, d):
        """Writes the digit that a column ends with, or another one where a slip was planted. Returns what was written."""
        planted = self.column == self.slip_at
        self.column += 1
        if planted:
            d = (d + self.rng.randrange(1, 10)) % 10
        self.parts.append((str(d), 0.0 if planted else HARD))
        return d

    def task(self, before, x, between, y, after):
        """Writes the two operands as they were read from the question."""
        for text, digits_of in ((before, x), (between, y), (after, "")):
            self.say(text)
            self.parts += [(d, COPY) for d in str(digits_of)]

    def hard(self, token):
        """Writes a token at which something is decided: whether a column goes over ten, or needs to borrow."""
        self.parts.append((token, HARD))


def add_columns(c, x, y, style):
    """Writes the columns of x + y and returns the number that they spell."""
    width = max(len(str(x)), len(str(y)))
    carry, out = 0, []
    for i, (p, q) in enumerate(zip(digits(x, width), digits(y, width))):
        last = i == width - 1
        total = p + q + carry
        c.say({"low": ", " if i else " ", "medium": f"\n{LABELS[i]}: ", "high": f"\n{LABELS[i]}: "}[style])
        c.say(f"{p}+{q}" + ("+1" if carry else "") + "=")
        if total > 9:
            c.hard("1")
        d = c.digit(total % 10)
        carry = total // 10
        out.append(d)
        if style != "low":
            if last and carry:
                c.say(f", so I write 1{d}.")
            else:
                c.say(f", so I write {d}" + (" and carry 1." if carry else "."))
    return sum(d * 10 ** i for i, d in enumerate(out)) + carry * 10 ** width


def subtract_columns(c, x, y, style):
    """Writes the columns of x - y for x >= y and returns the number that they spell."""
    width = len(str(x))
    borrow, out = 0, []
    for i, (p, q) in enumerate(zip(digits(x, width), digits(y, width))):
        less = f"-{q}" + ("-1" if borrow else "")
        short = p - q - borrow < 0
        c.say({"low": ", " if i else " ", "medium": f"\n{LABELS[i]}: ", "high": f"\n{LABELS[i]}: "}[style])
        if style == "low":
            c.hard("1" if short else str(p))
            c.say(f"{p}{less}=" if short else f"{less}=")
        elif short:
            c.say(f"{p}{less}")
            c.hard(" is")
            c.say(f" too small, so 1{p}{less}=")
        else:
            c.say(f"{p}{less}")
            c.hard("=")
        d = c.digit(p - q - borrow + (10 if short else 0))
        if style != "low":
            c.say(f", so I write {d}" + (" and borrow 1." if short else "."))
        borrow = int(short)
        out.append(d)
    return sum(d * 10 ** i for i, d in enumerate(out))


def compare(c, a, b):
    """Writes the digits from the left up to the first that differ: what decides which number is larger."""
    width = max(len(str(a)), len(str(b)))
    for i, (p, q) in enumerate(zip(digits(a, width)[::-1], digits(b, width)[::-1])):
        c.say((", " if i else "") + str(p))
        c.hard("<" if p < q else ">" if p > q else "=")
        c.say(str(q))
        if p != q:
            break


def misstate(rng, n):
    """n with one digit changed and no leading zero made."""
    s = str(n)
    i = rng.randrange(len(s))
    d = rng.choice([x for x in "0123456789" if x != s[i] and not (x == "0" and i == 0 and len(s) > 1)])
    return int(s[:i] + d + s[i + 1:])


def state(c, text, sign, n, told):
    """Writes the result; where it is misstated, the digits that differ are not learned."""
    c.say(text + sign)
    for x, y in zip(str(n), str(told)):
        c.parts.append((y, float(x == y)))
    c.say(".")


def pick_slip(rng, width, slip):
    """None, or ("column", index) or ("result", None)."""
    if not slip:
        return None, False
    if rng.random() < 0.5:
        return rng.randrange(width), False
    return None, True


def addition(rng, a, b, effort, slip):
    width = max(len(str(a)), len(str(b)))
    at, wrong = pick_slip(rng, width, slip)
    c = Chain(rng, at)
    if effort == "low":
        c.task("I add ", a, " and ", b, " column by column:")
    elif effort == "medium":
        c.task("The task is to add ", a, " and ", b, ". I go column by column, from the right.")
    else:
        c.task("The task is to add ", a, " and ", b, ". I go column by column, from the right, and then check the sum.")
    n = add_columns(c, a, b, effort)
    told = misstate(rng, n) if wrong else n
    if effort == "low":
        state(c, ". The sum is ", "", n, told)
    else:
        state(c, "\nRead from the left, the sum is ", "", n, told)
    done, sound = len(c.parts), True
    if effort == "high":
        if told < b:
            return None
        c.say(f"\nTo check, I take {b} away again: {told}-{b}.")
        c.slip_at = None
        back = subtract_columns(c, told, b, effort)
        sound = back == a
        c.say(f"\nThat gives {back}, " + ("the number that I started from, so it fits." if sound else f"not {a}, so something may be wrong."))
    r = told
    if effort == "low":
        concise, detailed = f"It makes {r}.", (f"The columns give {r}." if width > 1 else f"It makes {r}.")
    elif effort == "medium":
        concise = f"Adding the columns gives {r}."
        detailed = f"Column after column was added, which gives {r}." if width > 1 else f"The single column adds up to {r}."
    else:
        concise = f"Adding the columns gives {r}, and taking {b} away confirms it."
        detailed = f"Adding column after column gives {r}. Taking the second number away leads back to the first."
    return c.parts, done, str(r), concise, detailed, sound


def subtraction(rng, a, b, effort, slip):
    big, small, sign = (a, b, "") if a >= b else (b, a, "-")
    width = len(str(big))
    at, wrong = pick_slip(rng, width, slip)
    c = Chain(rng, at)
    if effort == "low":
        c.task("I take ", b, " from ", a, ". ")
    elif effort == "medium":
        c.task("The task is to take ", b, " from ", a, ". I go column by column, from the right. Compared from the left: ")
    else:
        c.task("The task is to take ", b, " from ", a, ". I go column by column, from the right, and then check the difference. "
               "Compared from the left: ")
    compare(c, a, b)
    if effort == "low":
        c.say(f", so {big}-{small}" + (" with a minus:" if sign else ":"))
    else:
        c.say(f", so I work out {big}-{small}" + (" and put a minus in front." if sign else "."))
    n = subtract_columns(c, big, small, effort)
    told = misstate(rng, n) if wrong else n
    minus = sign if told else ""
    if effort == "low":
        state(c, ". The difference is ", minus, n, told)
    else:
        state(c, "\nRead from the left, the difference is ", minus, n, told)
    done, sound = len(c.parts), True
    if effort == "high":
        c.say(f"\nTo check, I add {small} again: {told}+{small}.")
        c.slip_at = None
        back = add_columns(c, told, small, effort)
        sound = back == big
        c.say(f"\nThat gives {back}, " + ("the number that I started from, so it fits." if sound else f"not {big}, so something may be wrong."))
    r = minus + str(told)
    if effort == "low":
        concise, detailed = f"It leaves {r}.", (f"The columns leave {r}." if width > 1 else f"It leaves {r}.")
    elif effort == "medium":
        concise = f"Subtracting the columns leaves {r}."
        detailed = (f"The second number is larger, so the difference is negative: {r}." if minus else
                    f"Column after column was subtracted, which leaves {r}.")
    else:
        concise = f"Subtracting the columns leaves {r}, and adding {small} confirms it."
        detailed = f"Subtracting column after column leaves {r}. Adding the smaller number again leads back to the larger one."
    return c.parts, done, r, concise, detailed, sound


def edited(rng, parts, done, told, effort):
    """A finished analysis whose stated result is changed afterwards: context only, the answer follows the statement."""
    magnitude = int(told.lstrip("-"))
    other = str(misstate(rng, magnitude))
    head = "".join(t for t, _ in parts[:done])
    tail = "".join(t for t, _ in parts[done:])
    if effort == "high" and rng.random() < 0.5:
        for op in "+-":
            tail = tail.replace(f": {magnitude}{op}", f": {other}{op}", 1)
    cut = head.rindex(str(magnitude))
    new = ("-" if told.startswith("-") and other != "0" else "") + other
    cut -= 1 if told.startswith("-") else 0
    return [(head[:cut] + new + "." + tail, 0.0)], new


def build(rng, op, a, b, question, effort, slip=None):
    """The Turn for one question; slip is None, "during" or "after"."""
    work = addition if op == "+" else subtraction
    made = work(rng, a, b, effort, slip == "during")
    for tries in range(20):
        if made is not None:
            break
        # Some sums, as 0 + 999, have no slip that the check could go on from.
        made = work(rng, a, b, effort, tries < 19)
    parts, done, told, concise, detailed, sound = made
    if slip == "after":
        parts, told = edited(rng, parts, done, told, effort)
        done, sound = 1, False
    return Turn(
        question=question, analysis=parts, final=f"{a} {op} {b} = {told}.",
        concise=concise if sound else "", detailed=detailed if sound else "",
        posthoc=(f"Adding {a} and {b} gives {told}." if op == "+" else f"Taking {b} from {a} leaves {told}."),
        direct=slip is None, complete=done, kind="add" if op == "+" else "subtract",
        facts={"a": a, "b": b, "op": op, "answer": told})


def turn(rng, effort, slips=True):
    op = rng.choice("++-")
    a, b = pair(rng)
    if op == "-" and a < b and rng.random() < 0.3 and not held_out(b, a):
        a, b = b, a
    question = add_question(rng, a, b) if op == "+" else subtract_question(rng, a, b)
    slip = None
    if slips and rng.random() < 0.22:
        slip = rng.choice(("during", "during", "after"))
    return build(rng, op, a, b, question, effort, slip)
