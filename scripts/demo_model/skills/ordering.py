"""Comparison of two numbers, the largest or smallest of up to six, and sorting three to six: whole numbers from 0 to
999.

Two numbers are compared as in columns.py. With more, two at a time are written next to each other, the best so far
and the next, followed by the verdict:

    45 12 478: 45 12 less; 12 478 more; so 12
"""

from . import Turn
from .arithmetic import held_out, operand
from .asking import compare_question, extreme_question, sort_question
from .columns import work


def number(rng):
    return rng.randrange(21) if rng.random() < 0.1 else operand(rng)


def near(rng, a):
    """A number easily confused with a: its digits in another order, a neighbour, or a itself."""
    roll = rng.random()
    if roll < 0.4:
        digits = list(str(a))
        rng.shuffle(digits)
        return int("".join(digits))
    return a if roll < 0.6 else min(999, max(0, a + rng.randrange(-12, 13)))


def several(rng, low, fresh):
    """Numbers to order, mostly of similar size and rarely with a repetition. Held-out ones have a first pair that
    training never uses."""
    size = rng.choice((None, None, 10, 100, 100, 1000))
    while True:
        numbers = [rng.randrange(size) if size else number(rng) for _ in range(rng.randrange(low, 7))]
        if rng.random() > 0.08:
            numbers = list(dict.fromkeys(numbers))
        elif rng.random() < 0.5:
            numbers[-1] = numbers[0]
        if len(numbers) < low:
            continue
        if held_out(*numbers[:2]) == fresh:
            return numbers
        if fresh and size == 10:
            size = 100


def about(c, asked, a, b, low):
    """Writes what is asked about two numbers."""
    word, between = asked.split(" ")[-1], " and "
    if asked.startswith("whether"):
        c.say("I ask whether " if low else "The task is to tell whether ")
        c.read(a)
        c.say(" is")
        c.hard(f" {word}")
        between = " to " if word == "equal" else " than "
    elif asked == "compared":
        c.say("I" if low else "The task is to")
        c.hard(" compare")
        c.say(" ")
        c.read(a)
    else:
        c.say("I look for the" if low else "The task is to find the")
        c.hard(f" {word}")
        c.say(" of ")
        c.read(a)
    c.say(between)
    c.read(b)
    c.say(". " if low else ".\nI compare them digit by digit, from the left, until two digits differ.\n")


def compare(rng, effort, slips, fresh):
    while True:
        a = number(rng)
        b = near(rng, a) if rng.random() < 0.25 else number(rng)
        if held_out(a, b) == fresh:
            break
    asked = rng.choice(("larger", "larger", "smaller", "whether larger", "whether larger", "whether smaller",
        "whether equal", "compared"))
    if asked == "whether equal" and rng.random() < 0.4 and held_out(a, a) == fresh:
        b = a
    size = "larger" if a > b else "smaller" if a < b else None
    whether = asked.split(" ")[-1] if asked.startswith("whether") else None
    reply = None if whether is None else "yes" if whether == (size or "equal") else "no"

    def write(c):
        low = effort == "low"
        about(c, asked, a, b, low)
        c.less(a, b)
        c.say(", so" if low else ".\nSo")
        told = None
        if reply:
            c.hard(f" {reply}")
            c.say(",")
        if size is None:
            c.say(" they are")
            c.hard(" equal")
        elif asked in ("larger", "smaller"):
            c.say(" ")
            told = c.result(a if asked == size else b)
        else:
            c.say(" it is" if low else " the first is")
            c.hard(f" {size}")
        c.done()
        if effort == "high":
            c.say(".\nNow I check the result: the other way round the sign must turn.\n")
            c.less(b, a)
            c.say(", and that")
            c.hard(" fits")
        c.say(".")
        return told

    chain, told = work(rng, write, slips and rng.random() < 0.2)
    if size is None:
        final = f"{reply.capitalize()}, they are equal." if reply else "They are equal."
        result = reply or "equal"
    elif asked in ("larger", "smaller"):
        final, result = f"{told} is {asked} than {b if asked == size else a}.", told
    else:
        final = (f"{reply.capitalize()}, " if reply else "") + f"{a} is {size} than {b}."
        result = reply or size
    gist = f"It is {told}" if told is not None else "They are equal" if size is None else f"It is {size}"
    gist = f"{reply.capitalize()}, {gist[0].lower()}{gist[1:]}" if reply else gist
    concise, detailed = f"{gist}.", f"{gist}." if effort == "low" else f"{gist}, as the digits tell."
    return Turn(question=compare_question(rng, asked, a, b), analysis=chain.parts, final=final, concise=concise,
                detailed=detailed,
                posthoc=final, complete=chain.known, kind="compare", result=result, numbers=[a, b],
                direct=all(w for _, w in chain.parts))


class Numbers:
    """A chain in which numbers are compared."""

    def __init__(self, chain):
        self.chain = chain

    def list(self, numbers):
        """Writes the numbers as they stand above."""
        for i, n in enumerate(numbers):
            self.chain.say(" " if i else "")
            self.chain.read(n)

    def verdict(self, best, other):
        """Writes two numbers and whether the second is less, more or the same. Returns the written word."""
        self.list((best, other))
        true = "less" if other < best else "more" if other > best else "same"
        return self.chain.verdict(f" {true}", " less" if true == "more" else " more").strip()

    def best(self, numbers, better):
        """Goes through the numbers and returns the one that the verdicts leave: the largest for "more", the smallest
        for "less"."""
        best = numbers[0]
        for n in numbers[1:]:
            if self.verdict(best, n) == better:
                best = n
            self.chain.say("; ")
        return best


def introduce(c, numbers, effort, before, word, after):
    """Writes the task with the numbers as they were read."""
    c.say(before)
    c.hard(word)
    c.say(after)
    for i, n in enumerate(numbers):
        c.say(", " if i else "")
        c.read(n)
    c.say("." if effort == "low" else ".\n")


def extreme(rng, effort, slips, fresh):
    numbers = several(rng, 2, fresh)
    largest = rng.random() < 0.5
    word, better = ("largest", "more") if largest else ("smallest", "less")

    def write(c):
        n = Numbers(c)
        introduce(c, numbers, effort, "I look for the" if effort == "low" else "The task is to find the", f" {word}",
            " of ")
        if effort != "low":
            c.say(f"I go through them from left to right and leave none out.\nI keep the {word} so far next to each number that follows.\n")
        else:
            c.say(" ")
        best = n.best(numbers, better)
        c.say("so ")
        told = c.result(best)
        c.done()
        sound = True
        if effort == "high":
            c.slip_at, places = None, c.places
            c.say(f".\nNow I check it against every number: none of them may be {better}.\n")
            for i, other in enumerate(numbers):
                c.say("; " if i else "")
                sound = n.verdict(told, other) != better and sound
            sound = sound and told in numbers
            c.places = places
            c.say(", and that")
            c.hard(" fits" if sound else " fails")
        c.say(".")
        return told, sound

    chain, (told, sound) = work(rng, write, slips and rng.random() < 0.2)
    concise = detailed = ""
    if sound:
        concise = f"It is {told}." if effort == "low" else f"The {word} is {told}."
        detailed = concise if effort == "low" else f"Of all the numbers, the {word} is {told}."
    return Turn(question=extreme_question(rng, largest, numbers), analysis=chain.parts, final=f"The {word} is {told}.",
                concise=concise,
                detailed=detailed, posthoc=f"Of these numbers {told} is the {word}.", complete=chain.known,
                kind="extreme", result=told,
                numbers=list(numbers), direct=all(w for _, w in chain.parts))


def sort(rng, effort, slips, fresh):
    numbers = several(rng, 3, fresh)
    descending = rng.random() < 0.35
    word, better = ("largest", "more") if descending else ("smallest", "less")

    def write(c):
        n, low = Numbers(c), effort == "low"
        introduce(c, numbers, effort, "I sort with the" if low else "The task is to sort with the", f" {word}",
            " first: ")
        if not low:
            c.say(f"I go through them again and again and leave none out.\nI look for the {word}, put it next in line, and go on with those that are left.\n")
        if effort == "high":
            c.say("Each time two numbers stand next to each other, and the word behind them tells which of them stays.\n")
        left, line = list(numbers), []
        while len(left) > 1:
            c.say(" " if low else f"{word.capitalize()} of those left, ")
            n.list(left)
            c.say(": ")
            best = n.best(left, better)
            c.say("so ")
            c.read(best)
            c.say("." + ("" if low else "\n"))
            line.append(best)
            left.remove(best)
        c.say(" " if low else "Left ")
        c.read(left[0])
        c.say("." + (" In order: " if low else "\nIn order they are: "))
        told = []
        for i, x in enumerate(line + left):
            c.say(", " if i else "")
            told.append(c.result(x))
        c.done()
        sound = True
        if effort == "high":
            c.slip_at, places = None, c.places
            c.say(f".\nNow I check each number with the one after it: none may be {better}.\n")
            check = Numbers(c)
            for i, (x, y) in enumerate(zip(told, told[1:])):
                c.say("; " if i else "")
                sound = check.verdict(x, y) != better and sound
            c.places = places
            c.say(", and that")
            c.hard(" fits" if sound else " fails")
        c.say(".")
        return told, sound

    chain, (told, sound) = work(rng, write, slips and rng.random() < 0.2)
    r = ", ".join(map(str, told))
    concise = detailed = ""
    if sound:
        concise = f"In order: {r}."
        detailed = concise if effort == "low" else f"Sorted with the {word} first: {r}."
    return Turn(question=sort_question(rng, descending, numbers), analysis=chain.parts, final=f"In order: {r}.",
                concise=concise,
                detailed=detailed, posthoc=f"Sorted with the {word} first, they are {r}.", complete=chain.known,
                kind="sort", result=r,
                numbers=list(told), direct=all(w for _, w in chain.parts))


def turn(rng, effort, slips=True, fresh=False):
    return rng.choice((compare, extreme, sort))(rng, effort, slips, fresh)
