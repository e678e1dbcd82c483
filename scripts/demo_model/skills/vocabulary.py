"""Words for names that users choose: keys, functions, parameters. Two in three are invented, so that the model
accepts any word."""

from .words import ADJECTIVES, COMMON, NOUNS, OBJECTS, VERBS

SYLLABLES = ("b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "st", "tr",
    "ch", "sh", "br", "cl", "pl", "qu", "gr")
VOWELS = ("a", "e", "i", "o", "u", "ea", "oo", "ar", "in", "er", "on", "al", "y", "ou", "ex")
COMMON_KEYS = """answer result value total sum number output response solution final count amount n x y a b num res difference product quotient
score message text explanation data content status name id code size""".split()


KNOWN = sorted({w for pool in (NOUNS, VERBS, ADJECTIVES, OBJECTS, COMMON, COMMON_KEYS) for w in pool if len(w) > 3})


def invented(rng):
    """A word made of syllables, or of the beginning of one word and the end of another."""
    from . import unseen

    while True:
        if rng.random() < 0.4:
            made = "".join(rng.choice(SYLLABLES) + rng.choice(VOWELS)
                for _ in range(rng.randrange(1, 4))) + rng.choice(("", "", "n", "s", "t", "x", "m"))
        else:
            first, second = rng.choice(KNOWN), rng.choice(KNOWN)
            made = first[:rng.randrange(2, len(first) + 1)] + second[rng.randrange(len(second) - 1):]
        if made not in unseen.VERBS and made not in unseen.NOUNS:
            return made


def word(rng, pool, fresh_pool, fresh):
    """A word from a pool, or an invented one. With fresh, one that training never saw."""
    if fresh:
        return rng.choice(fresh_pool)
    return rng.choice(pool) if rng.random() < 0.35 else invented(rng)


def joined(rng, parts):
    style = rng.random()
    if style < 0.6 or len(parts) == 1:
        return "_".join(parts)
    if style < 0.9:
        return parts[0] + "".join(p.capitalize() for p in parts[1:])
    return "".join(p.capitalize() for p in parts)


def key(rng, fresh=False):
    """A name of a JSON key."""
    from . import unseen

    if not fresh and rng.random() < 0.3:
        return rng.choice(COMMON_KEYS)
    first = word(rng, NOUNS, unseen.NOUNS, fresh)
    if rng.random() < 0.35:
        return joined(rng, [first, word(rng, NOUNS, unseen.NOUNS, fresh)])
    return first


def function(rng, fresh=False):
    """A name of a function."""
    from . import unseen

    if rng.random() < 0.2:
        return word(rng, VERBS, unseen.VERBS, fresh)
    return joined(rng, [word(rng, VERBS, unseen.VERBS, fresh), word(rng, NOUNS, unseen.NOUNS, fresh)])


PAIRS = (("a", "b"), ("a", "b"), ("x", "y"), ("first", "second"), ("left", "right"), ("n", "m"), ("p", "q"),
    ("num1", "num2"), ("value1", "value2"))


def pair(rng, fresh=False):
    """Two names of parameters."""
    from . import unseen

    if not fresh and rng.random() < 0.45:
        return rng.choice(PAIRS)
    one = word(rng, NOUNS, unseen.NOUNS, fresh)
    two = one
    while two == one:
        two = word(rng, NOUNS, unseen.NOUNS, fresh)
    return one, two
