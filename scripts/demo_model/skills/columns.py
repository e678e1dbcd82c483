"""Written arithmetic, digit by digit, in one notation at every effort. All skills use it.

    347+85: 7+5=12, 4+8+1=13, 3+0+1=4, so 432
    432-85: 12-5=7, 12-8=4, 3-0=3, so 347       a digit that is too small takes ten from its neighbour
    47*6: 7*6=42, 4*6+4=28, so 282
    857/6: 8/6=1 rest 2, 25/6=4 rest 1, 17/6=2 rest 5, so 142 rest 5
    347>285: 3>2                                 from the left, up to the first digits that differ

A chain can contain one slip: a digit or number that is wrong on purpose. The slip is not learned, but everything that
follows from it is. So the model learns to read its result from what it wrote.
"""

# The few tokens that need arithmetic, and the numbers read from the question, have a higher loss weight than the
# words around them. Tokens that are possible at the same place must have the same weight, or the model prefers the
# heavier one.
HARD = 5.0
COPY = 3.0


class Impossible(Exception):
    """A planted slip led to a place where the work cannot continue."""


def digits(n, width):
    """The digits of n from the right, padded with zeros to width."""
    return [n // 10 ** i % 10 for i in range(width)]


def misstate(rng, n):
    """n with one digit changed and no leading zero."""
    s = str(n)
    i = rng.randrange(len(s))
    d = rng.choice([x for x in "0123456789" if x != s[i] and not (x == "0" and i == 0 and len(s) > 1)])
    return int(s[:i] + d + s[i + 1:])


class Chain:
    """Collects an analysis as (text, weight) pieces. slip_at is the place that is written wrong; places counts the
    places."""

    def __init__(self, rng, slip_at=None):
        self.rng, self.slip_at, self.places, self.parts, self.known = rng, slip_at, 0, [], 0

    def say(self, text):
        if text:
            self.parts.append((text, 1.0))

    def hard(self, text):
        """Writes a decision: a carry, a comparison, the next step."""
        self.parts.append((text, HARD))

    def read(self, value):
        """Writes a number, name or word read from the question."""
        self.parts += [(d, COPY) for d in str(value)] if str(value).isdigit() else [(str(value), COPY)]

    def verdict(self, word, other):
        """Writes the word that ends a comparison, or the other one if the slip is here. Returns what was written."""
        planted = self._slips()
        self.parts.append((other if planted else word, 0.0 if planted else HARD))
        return other if planted else word

    def _slips(self):
        self.places += 1
        return self.places - 1 == self.slip_at

    def digit(self, d):
        """Writes a computed digit, or another one if the slip is here. Returns what was written."""
        planted = self._slips()
        if planted:
            d = (d + self.rng.randrange(1, 10)) % 10
        self.parts.append((str(d), 0.0 if planted else HARD))
        return d

    def value(self, n):
        """Writes a whole number computed in the head, such as 6*7, or another one if the slip is here."""
        told = misstate(self.rng, n) if self._slips() else n
        self._tell(n, told, HARD)
        return told

    def result(self, n):
        """Writes the number that the columns above give, or a wrong one if the slip is here. Returns what was
        written."""
        told = misstate(self.rng, n) if self._slips() else n
        self._tell(n, told, COPY)
        return told

    def _tell(self, n, told, weight):
        for x, y in zip(str(n), str(told)):
            self.parts.append((y, weight if x == y else 0.0))

    def done(self):
        """Marks that the result is known from here on."""
        self.known = len(self.parts)

    def add(self, x, y):
        """Writes x+y and returns the written sum."""
        self.say(f"{x}+{y}: ")
        width, carry, out = max(len(str(x)), len(str(y))), 0, 0
        for i, (p, q) in enumerate(zip(digits(x, width), digits(y, width))):
            total = p + q + carry
            self.say((", " if i else "") + f"{p}+{q}" + ("+1" if carry else "") + "=")
            if total > 9:
                self.hard("1")
            out += self.digit(total % 10) * 10 ** i
            carry = total // 10
        self.say(", so ")
        return self.result(out + carry * 10 ** width)

    def sub(self, x, y):
        """Writes x-y for x >= y and returns the written difference."""
        if x < y:
            raise Impossible
        self.say(f"{x}-{y}: ")
        width, borrow, out = len(str(x)), 0, 0
        for i, (p, q) in enumerate(zip(digits(x, width), digits(y, width))):
            self.say(", " if i else "")
            p -= borrow
            borrow = int(p < q)
            self.hard(str(p + 10 * borrow))
            self.say(f"-{q}=")
            out += self.digit(p + 10 * borrow - q) * 10 ** i
        self.say(", so ")
        return self.result(out)

    def times(self, x, d):
        """Writes x*d for a digit d and returns the written product."""
        self.say(f"{x}*{d}: ")
        carry, out, width = 0, 0, len(str(x))
        for i, p in enumerate(digits(x, width)):
            self.say((", " if i else "") + f"{p}*{d}" + (f"+{carry}" if carry else "") + "=")
            told = self.value(p * d + carry)
            out += told % 10 * 10 ** i
            carry = told // 10
        self.say(", so ")
        return self.result(out + carry * 10 ** width)

    def mul(self, x, y):
        """Writes x*y for a y of one or two digits and returns the written product."""
        if y < 10:
            return self.times(x, y)
        ones = self.times(x, y % 10)
        self.say("; ")
        tens = self.times(x, y // 10)
        self.say(", with a zero ")
        tens = self.result(tens * 10)
        self.say("; ")
        return self.add(ones, tens)

    def div(self, x, d):
        """Writes x/d for a digit d and returns the written quotient and remainder."""
        self.say(f"{x}/{d}: ")
        rest, out = 0, 0
        for i, p in enumerate(digits(x, len(str(x)))[::-1]):
            head = rest * 10 + p
            self.say((", " if i else "") + f"{head}/{d}=")
            q = self.digit(head // d)
            if q * d > head:
                raise Impossible
            self.say(" rest ")
            rest = self.digit(head - q * d) if head - q * d < 10 else self._over()
            if rest >= d:
                raise Impossible
            out = out * 10 + q
        self.say(", so ")
        out = self.result(out)
        self.say(f" rest {rest}")
        return out, rest

    def _over(self):
        raise Impossible

    def less(self, x, y):
        """Writes which of two numbers is larger, and returns whether x is smaller than y."""
        if len(str(x)) != len(str(y)):
            self.read(x)
            self.hard("<" if x < y else ">")
            self.read(y)
            return x < y
        self.read(x)
        self.hard(" and")
        self.say(f" {y}: ")
        for i, (p, q) in enumerate(zip(str(x), str(y))):
            self.say((", " if i else "") + p)
            self.hard("<" if p < q else ">" if p > q else "=")
            self.say(q)
            if p != q:
                break
        return x < y


def work(rng, write, slip=False):
    """Runs write(chain) and returns its chain and its result. With slip, one of the written places is wrong."""
    state = rng.getstate()
    chain = Chain(rng)
    out = write(chain)
    if not slip or not chain.places:
        return chain, out
    places = chain.places
    for _ in range(20):
        at = rng.randrange(places)
        after = rng.getstate()
        rng.setstate(state)
        slipped = Chain(rng, at)
        try:
            result = write(slipped)
            rng.setstate(after)
            rng.random()
            return slipped, result
        except Impossible:
            rng.setstate(after)
            rng.random()
    return chain, out
